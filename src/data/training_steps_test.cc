#include "data/training_steps.h"

#include "base/error.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

TEST(TrainingSteps, EqualTheTrainers) {
  const auto cases = read_golden("steps");
  ASSERT_GT(cases.size(), 400U);
  for (const auto& c : cases) {
    const TrainingSteps steps = training_steps({.samples = c[0],
                                                .micro_batch_size = c[1],
                                                .gradient_accumulation_steps = c[2],
                                                .drop_last = c[3].get<int>() == 1,
                                                .num_train_epochs = c[4],
                                                .max_steps = c[5]});
    EXPECT_EQ(steps.micro_batches_per_epoch, c[6].get<int64_t>()) << c;
    EXPECT_EQ(steps.update_steps_per_epoch, c[7].get<int64_t>()) << c;
    EXPECT_EQ(steps.max_steps, c[8].get<int64_t>()) << c;
    EXPECT_EQ(steps.num_train_epochs, c[9].get<int64_t>()) << c;
    EXPECT_DOUBLE_EQ(steps.num_train_samples, c[10].get<double>()) << c;
  }
}

TEST(TrainingSteps, Errors) {
  EXPECT_THROW(training_steps({.samples = 0}), UserError);
  EXPECT_THROW(training_steps({.samples = 5, .micro_batch_size = 0}), UserError);
  EXPECT_THROW(training_steps({.samples = 5, .gradient_accumulation_steps = 0}), UserError);
  EXPECT_THROW(training_steps({.samples = 5, .num_train_epochs = 0.0}), UserError);
  EXPECT_THROW(training_steps({.samples = 5, .num_train_epochs = 1e30}), UserError);
  const auto message =
      message_of<UserError>([] { training_steps({.samples = 5, .micro_batch_size = 8, .drop_last = true}); });
  EXPECT_TRUE(contains(message, "dataloader_drop_last"));
}

}  // namespace
}  // namespace shoehorn
