#include "exec/backend/host_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {
constexpr int64_t kHugePage = int64_t{2} << 20;
}

HostArena::HostArena(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  mapping_bytes_ = bytes + kHugePage;
  void* mapping = mmap(nullptr, static_cast<size_t>(mapping_bytes_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw system_error(
        "[arena] expected {} of memory, got '{}'; close other programs or choose a smaller plan",
        format_bytes(bytes), std::strerror(errno));
  }
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = std::bit_cast<uintptr_t>(mapping);
  data_ = mapping_ + (kHugePage - static_cast<int64_t>(address % kHugePage)) % kHugePage;
  // Huge pages cover whole 2 MiB only, so the arena's last part stays on small pages and residency stays
  // exact.
  if (bytes >= kHugePage) madvise(data_, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  touch();
}

// Writes a byte of every page, which makes it resident and, by the system, zero; the team shares that work.
void HostArena::touch() {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t pieces = ceil_divide(bytes_, kHugePage);
#pragma omp parallel for schedule(static)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t end = std::min(bytes_, (piece + 1) * kHugePage);
    for (int64_t at = piece * kHugePage; at < end; at += page) data_[at] = std::byte{0};
  }
}

void HostArena::lock() {
  if (bytes_ == 0 || mlock(data_, static_cast<size_t>(bytes_)) == 0) return;
  throw system_error(
      "[--lock_memory] expected {} that can be locked in memory, got '{}'; raise `ulimit -l`, or leave the flag out",
      format_bytes(bytes_), std::strerror(errno));
}

HostArena::~HostArena() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

int64_t HostArena::resident_bytes() const {
  constexpr int64_t kPagesAtOnce = 4096;
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::array<unsigned char, kPagesAtOnce> states{};
  int64_t resident = 0;
  for (int64_t from = 0; from < bytes_; from += kPagesAtOnce * page) {
    const int64_t length = std::min(kPagesAtOnce * page, bytes_ - from);
    CHECK(mincore(data_ + from, static_cast<size_t>(length), states.data()) == 0, "mincore failed");
    const int64_t pages = ceil_divide(length, page);
    resident += std::count_if(states.begin(), states.begin() + pages,
                              [](unsigned char state) { return (state & 1) != 0; });
  }
  return std::min(bytes_, resident * page);
}

}  // namespace shoehorn
