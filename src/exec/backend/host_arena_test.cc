#include "exec/backend/host_arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/memory_limit.h"
#include "base/proc_file.h"

namespace shoehorn {
namespace {

TEST(HostArenaTest, IsZeroedAlignedAndResidentFromTheStart) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (const int64_t bytes :
       {int64_t{1}, page - 1, page, page + 1, int64_t{2} << 20, (int64_t{5} << 20) + 123}) {
    const HostArena arena(bytes);
    EXPECT_EQ(arena.bytes(), bytes);
    EXPECT_EQ(arena.resident_bytes(), bytes);
    EXPECT_EQ(arena.host(), arena.address());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.address()) % (size_t{2} << 20), 0U);
    EXPECT_TRUE(
        std::all_of(arena.host(), arena.host() + bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(HostArena(0).resident_bytes(), 0);
}

TEST(HostArenaTest, IsLockedInMemoryOnRequest) {
  constexpr int64_t kBytes = (int64_t{1} << 20) + 123;
  if (lockable_memory_bytes() < 2 * kBytes) GTEST_SKIP() << "`ulimit -l` leaves too little";
  const auto locked = [] { return bytes_of_key("/proc/self/status", "VmLck").value_or(0); };
  const int64_t before = locked();
  {
    HostArena arena(kBytes);
    EXPECT_EQ(locked(), before);
    arena.lock();
    EXPECT_GE(locked() - before, kBytes);
    EXPECT_LT(locked() - before, kBytes + 2 * sysconf(_SC_PAGESIZE));
  }
  EXPECT_EQ(locked(), before) << "freed memory is not locked";
  HostArena(0).lock();
}

TEST(HostArenaTest, AReservationThatTheSystemRefusesIsASystemError) {
  EXPECT_THROW(HostArena(int64_t{1} << 55), SystemError);
}

}  // namespace
}  // namespace shoehorn
