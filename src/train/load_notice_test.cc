#include "train/load_notice.h"

#include <gtest/gtest.h>

#include "arguments/training_arguments.h"
#include "state/trainer_state.h"

namespace shoehorn {
namespace {

// A run whose steps take as long, and a machine that is as busy, as the test says.
class LoadNoticeTest : public testing::Test {
 protected:
  void begin(int64_t threads, int64_t processors, bool steps_are_alike = true) {
    LoadNoticeOptions options;
    options.threads = threads;
    options.local_ranks = local_ranks_;
    options.processors = processors;
    options.steps_are_alike = steps_are_alike;
    options.on_line = [this](const std::string& line) { lines_.push_back(line); };
    options.load = [this] { return load_; };
    options.clock_seconds = [this] { return now_; };
    notice_.emplace(std::move(options));
    notice_->on_train_begin(args_, state_, control_);
  }

  void take_steps(int count, double seconds) {
    for (int i = 0; i < count; ++i) {
      notice_->on_step_begin(args_, state_, control_);
      now_ += seconds;
      ++state_.global_step;
      notice_->on_step_end(args_, state_, control_);
    }
  }

  TrainingArguments args_;
  TrainerState state_;
  TrainerControl control_;
  std::optional<MachineLoad> load_ = MachineLoad{0.3, 1};
  int64_t local_ranks_ = 1;
  double now_ = 0;
  std::vector<std::string> lines_;
  std::optional<LoadNotice> notice_;
};

TEST_F(LoadNoticeTest, BusyAtTheStart) {
  load_ = {3.2, 3};
  begin(2, 2);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(
      lines_[0],
      "the machine is busy, and steps take longer: 2 threads of other programs and 2 of this run want 2 "
      "processors; wait until the others have ended, or give --num_threads 1");
  take_steps(50, 9);
  EXPECT_EQ(lines_.size(), 1U) << "once";
}

TEST_F(LoadNoticeTest, OtherRanksAreNoOtherPrograms) {
  local_ranks_ = 2;
  load_ = {2.2, 3};  // this thread and two of the other rank
  begin(2, 4);
  EXPECT_TRUE(lines_.empty());
  load_ = {4.4, 5};
  begin(2, 4);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(
      lines_[0],
      "the machine is busy, and steps take longer: 2 threads of other programs and 4 of this run want 4 "
      "processors; wait until the others have ended, or give --num_threads 1");
}

TEST_F(LoadNoticeTest, RoomForAllIsNoNotice) {
  load_ = {3.2, 4};
  begin(4, 16);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LoadNoticeTest, WhatHasEndedOrLastsAMomentIsNoLoad) {
  load_ = {4, 1};
  begin(2, 2);
  load_ = {0.1, 5};
  begin(2, 2);
  load_ = std::nullopt;
  begin(2, 2);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LoadNoticeTest, StepsThatTakeTwiceAsLongOnABusyMachine) {
  begin(2, 2);
  take_steps(30, 1);
  load_ = {2.4, 2};
  take_steps(20, 1.5);
  EXPECT_TRUE(lines_.empty()) << "not twice";
  take_steps(20, 2.5);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0].find("steps take 2.5 s since step "), 0U) << lines_[0];
  EXPECT_NE(lines_[0].find(", and took 1 s at first: 1 thread of other programs and 2 of this run want 2 "),
            std::string::npos)
      << lines_[0];
  take_steps(100, 9);
  EXPECT_EQ(lines_.size(), 1U) << "once";
}

TEST_F(LoadNoticeTest, LongerStepsOnAnIdleMachineAreNoLoad) {
  begin(2, 2);
  take_steps(30, 1);
  take_steps(30, 5);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LoadNoticeTest, StepsThatGrowByDesignAreNotCompared) {
  begin(2, 2, false);
  take_steps(30, 1);
  load_ = {3, 3};
  take_steps(30, 5);
  EXPECT_TRUE(lines_.empty());
}

}  // namespace
}  // namespace shoehorn
