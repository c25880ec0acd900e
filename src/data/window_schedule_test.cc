#include "data/window_schedule.h"

#include "base/error.h"
#include "data/test_support.h"
#include "data/training_steps.h"

namespace shoehorn {
namespace {

TEST(WindowScheduleTest, WithoutARampEveryEpochIsAlike) {
  const WindowSchedule schedule({.samples = 37, .micro_batch_size = 4, .gradient_accumulation_steps = 3});
  EXPECT_EQ(schedule.micro_batches_per_epoch(), 10);
  EXPECT_EQ(schedule.ramp_epochs(), 0);
  EXPECT_EQ(schedule.steps_in(5), 4);
  EXPECT_EQ(schedule.place(5, 3).first, 9);
  EXPECT_EQ(schedule.place(5, 3).count, 1);
  EXPECT_EQ(schedule.place(5, 4).count, 0);
  EXPECT_EQ(schedule.resume_point(0).epoch, 0);
  EXPECT_EQ(schedule.resume_point(7).epoch, 1);
  EXPECT_EQ(schedule.resume_point(7).update_step, 3);
  EXPECT_EQ(schedule.resume_point(8).update_step, 0);
  EXPECT_EQ(schedule.samples_before(7), 37 + 36);
  EXPECT_EQ(schedule.samples_before(8), 74);
}

// By hand: 20 samples are 10 micro-batches of 2; the ramp is over after 26 samples, in the second epoch.
TEST(WindowScheduleTest, ARampByHand) {
  const WindowSchedule schedule({.samples = 20,
                                 .micro_batch_size = 2,
                                 .gradient_accumulation_steps = 4,
                                 .ramp = {{0, 1}, {5, 2}, {26, 4}}});
  EXPECT_EQ(schedule.ramp_epochs(), 2);
  const auto windows = [&](int64_t epoch) {
    std::vector<std::pair<int64_t, int64_t>> all;
    for (int64_t step = 0; step < schedule.steps_in(epoch); ++step)
      all.emplace_back(schedule.place(epoch, step).first, schedule.place(epoch, step).count);
    return all;
  };
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  // 0, 2 and 4 samples are below 5; then windows of two, the last cut off by the end of the epoch.
  EXPECT_EQ(windows(0), (Pairs{{0, 1}, {1, 1}, {2, 1}, {3, 2}, {5, 2}, {7, 2}, {9, 1}}));
  // 20 and 24 samples are below 26; 28 is not.
  EXPECT_EQ(windows(1), (Pairs{{0, 2}, {2, 2}, {4, 4}, {8, 2}}));
  EXPECT_EQ(windows(2), (Pairs{{0, 4}, {4, 4}, {8, 2}}));
  EXPECT_EQ(schedule.samples_before(3), 6);
  EXPECT_EQ(schedule.samples_before(7), 20);
  EXPECT_EQ(schedule.samples_before(9), 28);
  EXPECT_EQ(schedule.resume_point(10).epoch, 1);
  EXPECT_EQ(schedule.resume_point(10).update_step, 3);
  EXPECT_EQ(schedule.resume_point(11).epoch, 2);
  EXPECT_EQ(schedule.resume_point(13).update_step, 2);
  EXPECT_EQ(schedule.resume_point(14).epoch, 3);
}

// Whatever the sizes: windows of an epoch follow each other without a gap, none is larger than its stage
// says, only the last of an epoch is smaller, and steps count through.
TEST(WindowScheduleTest, AnyRampCoversEveryEpoch) {
  for (const int64_t samples : {1, 7, 64, 301}) {
    for (const bool drop_last : {false, true}) {
      for (const int64_t end : {0, 3, 100, 1000}) {
        const WindowScheduleOptions options{.samples = samples,
                                            .micro_batch_size = 3,
                                            .gradient_accumulation_steps = 8,
                                            .drop_last = drop_last,
                                            .ramp = {{0, 1}, {end / 2 + 1, 5}, {end + 2, 8}}};
        if (drop_last && samples < 3) continue;
        const WindowSchedule schedule(options);
        int64_t step = 0;
        int64_t consumed = 0;
        for (int64_t epoch = 0; epoch < 6; ++epoch) {
          int64_t next = 0;
          for (int64_t s = 0; s < schedule.steps_in(epoch); ++s, ++step) {
            EXPECT_EQ(schedule.samples_before(step), consumed);
            EXPECT_EQ(schedule.resume_point(step).epoch, epoch);
            EXPECT_EQ(schedule.resume_point(step).update_step, s);
            const WindowPlace place = schedule.place(epoch, s);
            ASSERT_EQ(place.first, next);
            const int64_t size = consumed >= end + 2 ? 8 : consumed >= end / 2 + 1 ? 5 : 1;
            const bool is_last = s + 1 == schedule.steps_in(epoch);
            if (is_last) {
              EXPECT_LE(place.count, size);
            } else {
              EXPECT_EQ(place.count, size);
            }
            next = place.first + place.count;
            consumed += std::min(next * 3, drop_last ? samples / 3 * 3 : samples) -
                        std::min(place.first * 3, samples);
          }
          EXPECT_EQ(next, schedule.micro_batches_per_epoch());
        }
      }
    }
  }
}

TEST(WindowScheduleTest, StepsOfARun) {
  TrainingStepsOptions options{.samples = 20,
                               .micro_batch_size = 2,
                               .gradient_accumulation_steps = 4,
                               .ramp = {{0, 1}, {5, 2}, {26, 4}},
                               .num_train_epochs = 3};
  EXPECT_EQ(training_steps(options).max_steps, 7 + 4 + 3);
  EXPECT_EQ(training_steps(options).num_train_epochs, 3);
  EXPECT_EQ(training_steps(options).update_steps_per_epoch, 7);
  options.num_train_epochs = 1.5;
  EXPECT_EQ(training_steps(options).max_steps, 7 + 2);
  options.num_train_epochs = 2.5;
  EXPECT_EQ(training_steps(options).max_steps, 7 + 4 + 2);
  options.max_steps = 12;
  EXPECT_EQ(training_steps(options).num_train_epochs, 3);
  EXPECT_EQ(training_steps(options).num_train_samples, 48);
  options.max_steps = 11;
  EXPECT_EQ(training_steps(options).num_train_epochs, 2);
}

TEST(WindowScheduleTest, ARampIsWhole) {
  EXPECT_THROW(WindowSchedule({.samples = 5, .gradient_accumulation_steps = 4, .ramp = {{1, 2}, {3, 4}}}),
               InternalError);
  EXPECT_THROW(WindowSchedule({.samples = 5, .gradient_accumulation_steps = 4, .ramp = {{0, 2}, {3, 3}}}),
               InternalError);
  EXPECT_THROW(WindowSchedule({.samples = 5}).resume_point(-1), InternalError);
  // A million epochs of it are not written down.
  EXPECT_THROW(WindowSchedule(
                   {.samples = 1000, .gradient_accumulation_steps = 4, .ramp = {{0, 2}, {1'000'000'000, 4}}}),
               UserError);
}

}  // namespace
}  // namespace shoehorn
