#include "io/leftovers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "io/dead_process_testing.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

class LeftoversTest : public testing::Test {
 protected:
  TestDirectory directory_;
  std::filesystem::path file_ = directory_.write("file", "bytes");
};

TEST_F(LeftoversTest, OfADeadProcessIsAbandonedUnlessItIsLocked) {
  const int64_t dead = dead_process();
  EXPECT_TRUE(is_abandoned(file_, dead));
  const FileDescriptor lock = try_lock(file_);
  ASSERT_TRUE(lock.is_open());
  EXPECT_FALSE(is_abandoned(file_, dead)) << "another process has taken it";
  EXPECT_FALSE(try_lock(file_).is_open());
}

// As rank 0 of a run whose ranks were all killed, until somebody asks for its exit code.
TEST_F(LeftoversTest, OfAnEndedProcessThatKeepsItsIdIsAbandoned) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  siginfo_t seen{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(ended), &seen, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_abandoned(file_, ended));
  EXPECT_EQ(waitpid(ended, nullptr, 0), ended);
}

TEST_F(LeftoversTest, OfThisProcessIsAbandonedUnlessItIsLocked) {
  EXPECT_TRUE(is_abandoned(file_, getpid())) << "an earlier process had this id";
  FileDescriptor lock = try_lock(file_);
  EXPECT_FALSE(is_abandoned(file_, getpid()));
  lock.close();
  EXPECT_TRUE(is_abandoned(file_, getpid()));
}

TEST_F(LeftoversTest, OfALivingProcessIsNotAbandoned) {
  EXPECT_FALSE(is_abandoned(file_, getppid()));
}

TEST_F(LeftoversTest, WhatWasRemovedMeanwhileIsNobodysToRemove) {
  EXPECT_FALSE(is_abandoned(directory_.path() / "none", dead_process()));
  EXPECT_THROW(try_lock(directory_.path() / "none"), SystemError);
}

}  // namespace
}  // namespace shoehorn
