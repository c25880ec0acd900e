#include "lab/step_watch.h"

#include <gtest/gtest.h>

#include "arguments/training_arguments.h"
#include "state/trainer_state.h"

namespace shoehorn {
namespace {

// The number of steps that are made until the watch ends training; step n takes seconds_of(n).
int64_t steps_until_end(StepWatchOptions options, const std::function<double(int64_t)>& seconds_of,
                        int64_t max_steps = 30) {
  double now = 0;
  options.clock_seconds = [&now] { return now; };
  StepWatch watch(std::move(options));
  const TrainingArguments args;
  const TrainerState state;
  TrainerControl control;
  for (int64_t step = 1; step <= max_steps; ++step) {
    watch.on_step_begin(args, state, control);
    now += seconds_of(step);
    watch.on_step_end(args, state, control);
    if (control.should_training_stop) return step;
  }
  return max_steps;
}

TEST(StepWatch, EndsWhenTheMedianIsKnown) {
  EXPECT_EQ(steps_until_end({.precision = 0.02}, [](int64_t) { return 1.0; }), 6) << "five after the first";
  EXPECT_EQ(steps_until_end({.precision = 0.02}, [](int64_t step) { return step == 3 ? 9.0 : 1.0; }), 9)
      << "eight have an interval without the outlier";
  EXPECT_EQ(steps_until_end({.precision = 0.02}, [](int64_t step) { return step == 1 ? 9.0 : 1.0; }), 6)
      << "the first does not count";
}

TEST(StepWatch, EndsAtItsLimit) {
  const auto rising = [](int64_t step) { return static_cast<double>(step); };
  EXPECT_EQ(steps_until_end({.precision = 0.02, .max_seconds = 1e9}, rising), 30);
  // 2 + 3 + 4 + 5 seconds behind the first.
  EXPECT_EQ(steps_until_end({.precision = 0.02, .max_seconds = 13}, rising), 5);
  EXPECT_EQ(steps_until_end({.precision = 0.02, .max_seconds = 0}, rising), 4) << "three figures at least";
}

// Of ranks each has times of its own, and all end with the first.
TEST(StepWatch, EndsWhereItsRanksAgree) {
  std::vector<bool> would_end;
  const auto agree = [&](bool is_over) {
    would_end.push_back(is_over);
    return would_end.size() == 9;
  };
  EXPECT_EQ(steps_until_end({.precision = 0.02, .agree = agree}, [](int64_t) { return 1.0; }), 10);
  EXPECT_EQ(would_end, (std::vector<bool>{false, false, false, false, true, true, true, true, true}));
}

TEST(StepWatch, WithoutAPrecisionEveryStepIsMade) {
  EXPECT_EQ(steps_until_end({}, [](int64_t) { return 1.0; }), 30);
}

TEST(StepWatch, NotesTheLoad) {
  StepWatch watch({.threads = 1});
  const TrainingArguments args;
  const TrainerState state;
  TrainerControl control;
  for (int step = 0; step < 2; ++step) {
    watch.on_step_begin(args, state, control);
    const double begin = processor_use().cpu_seconds;
    while (processor_use().cpu_seconds - begin < 0.05) {
    }
    watch.on_step_end(args, state, control);
  }
  EXPECT_GT(watch.load().cpu_share, 0);
  EXPECT_LT(watch.load().cpu_share, 1.3) << "one thread has at most the time that passed";
  EXPECT_GE(watch.load().involuntary_switches, 0);
}

}  // namespace
}  // namespace shoehorn
