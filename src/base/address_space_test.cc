#include "base/address_space.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/sanitizer_testing.h"

namespace shoehorn {
namespace {

// In a process of its own, whose limit leaves some 64 MiB.
TEST(AddressSpace, HasWhatALimitLeaves) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  EXPECT_TRUE(can_map(kMebibyte));
  if (shoehorn::test_support::kIsSanitized) GTEST_SKIP() << "a sanitizer takes address space of its own";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int64_t taken_pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%ld", &taken_pages) != 1) _exit(9);
    const auto most = static_cast<rlim_t>(taken_pages * sysconf(_SC_PAGESIZE) + 64 * kMebibyte);
    const rlimit limit = {most, most};
    setrlimit(RLIMIT_AS, &limit);
    // What is asked about is given back: again and again there is as much.
    for (int i = 0; i < 3; ++i) {
      if (!can_map(60 * kMebibyte)) _exit(1);
      if (can_map(68 * kMebibyte)) _exit(2);
      if (!can_map(20 * kMebibyte, 3)) _exit(3);
      if (can_map(20 * kMebibyte, 4)) _exit(4);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace
}  // namespace shoehorn
