#include "exec/backend/host_backend.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/process.h"
#include "base/thread_stacks.h"
#include "exec/backend/host_arena.h"
#include "exec/backend/host_stream.h"

namespace shoehorn {

namespace {

// What a run adds after the forecast besides its arenas: bound calls, stacks of the team, the conversion
// staging, log and checkpoint buffers. Measured with the settings of tests/memory_promise_test.cc.
constexpr int64_t kRunOverheadBytes = int64_t{3} << 20;

// The stacks of the team that runs the kernels are a part of what the process holds.
void start_team() {
  check_room_for_stacks(omp_get_max_threads());
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  CHECK(threads > 0, "a team has no threads");
}

}  // namespace

std::unique_ptr<Arena> HostBackend::reserve(AddressSpace space, int64_t bytes) const {
  CHECK(space != AddressSpace::kDisk, "the plan has {} bytes on disk, which is no memory", bytes);
  return std::make_unique<HostArena>(bytes);
}

std::unique_ptr<Stream> HostBackend::make_stream() const {
  return std::make_unique<HostStream>();
}

std::unique_ptr<Event> HostBackend::make_event() const {
  return std::make_unique<HostEvent>();
}

void HostBackend::copy_to_host(const std::byte* from, std::span<std::byte> to, Stream&) const {
  std::copy_n(from, to.size(), to.data());
}

void HostBackend::copy_from_host(std::span<const std::byte> from, std::byte* to, Stream&) const {
  std::copy_n(from.data(), from.size(), to);
}

void HostBackend::fill(std::byte* to, int64_t bytes, std::byte value, Stream&) const {
  std::memset(to, std::to_integer<int>(value), static_cast<size_t>(bytes));
}

int64_t HostBackend::measure_process_overhead_bytes() {
  start_team();
  // What planning freed goes back first, so that it is not counted twice.
  return trimmed_resident_bytes() + kRunOverheadBytes;
}

}  // namespace shoehorn
