#include "session/batch_report.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "session/batching.h"

namespace shoehorn {
namespace {

TrainingArguments arguments() {
  TrainingArguments args;
  args.per_device_train_batch_size = 4;
  args.gradient_accumulation_steps = 4;
  args.learning_rate = 1e-3;
  return args;
}

TEST(BatchReport, SaysWhatTheBatchIsMadeOf) {
  TrainingArguments args = arguments();
  EXPECT_EQ(format_batch(args, steps_of(args, 3668)),
            "Effective batch 16 = 4 a device x 4 accumulation steps; 230 steps an epoch, 690 in all\n");
  args.gradient_accumulation_steps = 1;
  EXPECT_EQ(format_batch(args, steps_of(args, 400)),
            "Effective batch 4 = 4 a device; 100 steps an epoch, 300 in all\n");
  args.gradient_accumulation_steps = 2;
  args.world_size = 2;
  args.effective_batch_size = 12;
  EXPECT_EQ(format_batch(args, steps_of(args, 1200)),
            "Effective batch 12 = 3 micro-batches of 4 on 2 ranks; 100 steps an epoch, 300 in all\n");
}

TEST(BatchReport, WarnsOfFewSteps) {
  const TrainingArguments args = arguments();
  EXPECT_EQ(format_batch(args, steps_of(args, 160)).find("Warning"), std::string::npos);
  EXPECT_NE(
      format_batch(args, steps_of(args, 144)).find("Warning: an epoch updates the weights 9 times only"),
      std::string::npos);
}

TEST(ScaleLearningRate, IsLinearOrOfTheRoot) {
  TrainingArguments args = arguments();
  EXPECT_EQ(scaled_learning_rate(args), 1e-3);
  args.reference_batch_size = 64;
  args.scale_learning_rate = "linear";
  EXPECT_DOUBLE_EQ(scaled_learning_rate(args), 0.25e-3);
  EXPECT_NE(format_batch(args, steps_of(args, 3668)).find("Learning rate 0.00025 = 0.001 x 16/64\n"),
            std::string::npos);
  EXPECT_DOUBLE_EQ(schedule_of(args, 100).learning_rate(0), 0.25e-3) << "the schedule begins there";
  args.scale_learning_rate = "sqrt";
  EXPECT_DOUBLE_EQ(scaled_learning_rate(args), 0.5e-3);
  EXPECT_NE(format_batch(args, steps_of(args, 3668)).find("Learning rate 0.0005 = 0.001 x sqrt(16/64)\n"),
            std::string::npos);
}

TEST(ScaleLearningRate, NeedsTheBatchItWasTunedFor) {
  TrainingArguments args = arguments();
  args.scale_learning_rate = "linear";
  EXPECT_THROW(validate(args), UserError);
  args.reference_batch_size = 0;
  EXPECT_THROW(validate(args), UserError);
  args.reference_batch_size = 32;
  EXPECT_NO_THROW(validate(args));
  args.scale_learning_rate = "none";
  EXPECT_THROW(validate(args), UserError) << "a batch to scale from, and nothing to scale";
}

}  // namespace
}  // namespace shoehorn
