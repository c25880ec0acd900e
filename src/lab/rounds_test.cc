#include "lab/rounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "lab/median_interval.h"

namespace shoehorn {
namespace {

StepRun run_of(std::vector<double> samples) {
  StepRun run;
  run.outcome = RunOutcome::kMeasured;
  run.step_samples = std::move(samples);
  return run;
}

// Settings whose n-th process takes the steps that the test gives it; the last ones again after that.
class RoundsTest : public testing::Test {
 protected:
  void add(const std::string& name, std::vector<StepRun> processes) {
    settings_.push_back({name, [this, name, processes] {
                           order_ += name;
                           const size_t at = static_cast<size_t>(made_[name]++);
                           return processes[std::min(at, processes.size() - 1)];
                         }});
  }
  void measure() {
    measure_in_rounds(settings_, limits_, [this](int64_t done, int64_t of, const std::string& line) {
      progress_ += fmt::format("{}/{} ", done, of);
      lines_.push_back(line);
    });
  }

  RoundLimits limits_ = {.precision = 0.02, .least = 2, .most = 4, .most_seconds = 100};
  std::vector<RoundSetting> settings_;
  std::map<std::string, int> made_;
  std::string order_;
  std::string progress_;
  std::vector<std::string> lines_;
};

TEST_F(RoundsTest, InTurnsAndEverySecondRoundBackwards) {
  for (const char* name : {"a", "b", "c"}) add(name, {run_of({1, 1, 1})});
  measure();
  EXPECT_EQ(order_, "abccba");
  EXPECT_EQ(progress_, "0/6 1/6 2/6 3/6 4/6 5/6 6/6 ");
}

TEST_F(RoundsTest, OnlyWhatIsNotStableIsRepeated) {
  add("a", {run_of({1, 1, 1})});
  // The outlier's process is followed by others until the median is known.
  add("b", {run_of({1, 3, 3}), run_of({1, 1, 1})});
  measure();
  EXPECT_EQ(order_, "abbabb");
  EXPECT_EQ(progress_, "0/4 1/4 2/4 3/4 4/4 5/5 6/6 ");
  EXPECT_EQ(interval_of(pooled_run(settings_[1].runs)).median, 1);
}

TEST_F(RoundsTest, LimitsEndWhatIsNeverStable) {
  add("a", {run_of({1, 2, 3}), run_of({4, 5, 6})});
  measure();
  EXPECT_EQ(order_, "aaaa");
  limits_.most_seconds = 0;
  settings_[0].runs.clear();
  order_.clear();
  measure();
  EXPECT_EQ(order_, "a") << "its time was over after one";
}

TEST_F(RoundsTest, WhatFailsIsNotRepeated) {
  StepRun failed;
  failed.reason = "broke";
  add("a", {failed});
  add("b", {run_of({1, 1, 1})});
  measure();
  EXPECT_EQ(order_, "abb");
  EXPECT_EQ(lines_[1], "a: failed");
}

TEST_F(RoundsTest, Text) {
  EXPECT_EQ(describe(limits_),
            "until the median is known to 2 % (90 % interval), at most 4 processes or 100 s a setting");
}

}  // namespace
}  // namespace shoehorn
