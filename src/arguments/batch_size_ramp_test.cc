#include "arguments/batch_size_ramp.h"

#include <gtest/gtest.h>

#include "arguments/argument_table.h"
#include "base/error_testing.h"
#include "session/batch_report.h"
#include "session/batching.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// Micro-batches of 4; a batch of 4, of 8 from sample 12 on, of 16 from sample 40 on.
TrainingArguments ramped() {
  TrainingArguments args = quiet_arguments(4);
  args.gradient_accumulation_steps = 4;
  args.batch_size_ramp = {"0:4", "12:8", "40:16"};
  args.train_sampling_strategy = "sequential";
  return args;
}

std::string ramp_refusal(const std::vector<std::string>& ramp) {
  TrainingArguments args = ramped();
  args.batch_size_ramp = ramp;
  return refusal_of([&] { validate(args); });
}

TEST(BatchSizeRamp, Stages) {
  EXPECT_TRUE(batch_size_ramp_of({}).empty());
  const std::vector<RampStage> stages = {{0, 1}, {12, 2}, {40, 4}};
  EXPECT_EQ(batch_size_ramp_of(ramped()), stages);
  const auto parsed = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"--model_name_or_path", "m", "--gradient_accumulation_steps", "4"};
    all.insert(all.end(), words.begin(), words.end());
    return batch_size_ramp_of(parse_arguments(Command::kPlan, all).arguments);
  };
  const std::vector<RampStage> thousands = {{0, 1}, {2000, 4}};
  EXPECT_EQ(parsed({"--batch_size_ramp", "0:8,2K:32"}), thousands);
  EXPECT_EQ(parsed({"--batch_size_ramp", "0:8", "2000:32"}), thousands);
  EXPECT_EQ(parsed({"--step-batch-size-schedule", "0:8 2K:32"}), thousands) << "as Megatron-LM has it";
}

TEST(BatchSizeRamp, RefusalsSayWhatIsWrong) {
  const auto expect = [](const std::vector<std::string>& ramp, const char* part) {
    EXPECT_NE(ramp_refusal(ramp).find(part), std::string::npos) << ramp_refusal(ramp);
  };
  EXPECT_EQ(ramp_refusal({"0:4", "12:8", "40:16"}), "");
  EXPECT_EQ(ramp_refusal({"0:16"}), "");
  expect({"0-4"}, "[batch_size_ramp] expected SAMPLES:BATCH pairs, as 0:4,400:8,1200:16, got '0-4'");
  expect({"0:4:8"}, "got '0:4:8'");
  expect({"0:0"}, "got '0:0'");
  expect({"0:-4"}, "got '0:-4'");
  expect({"K:4"}, "got 'K:4'");
  expect({"9999999999B:4"}, "got '9999999999B:4'");
  expect({" "}, "got nothing");
  expect({"5:4", "40:16"}, "from 0 samples on, got it from 5");
  expect({"0:4", "40:6", "80:16"}, "multiples of per_device_train_batch_size 4, got 6");
  expect({"0:4", "0:16"}, "that grow, got 0:16 after 0:4");
  expect({"0:8", "40:4", "80:16"}, "that grow, got 40:4 after 0:8");
  expect({"0:4", "40:8"}, "to end at the effective batch 16 (effective_batch_size, or per_device");
  TrainingArguments found = ramped();
  found.auto_find_batch_size = true;
  EXPECT_THROW(validate(found), UserError);
}

TEST(BatchSizeRamp, HeaderSaysIt) {
  EXPECT_EQ(
      format_batch(ramped(), steps_of(ramped(), 400)),
      "Effective batch 16 = 4 a device x 4 accumulation steps; growing: 4 up to sample 12; 8 up to sample "
      "40; 30 steps in the first epoch, 80 in all\n");
}

// Weights that never move: the loss of each step is the mean over its samples' own losses, however many there
// are, in either order of accumulation.
TEST(BatchSizeRamp, EachStepIsTheMeanOfItsOwnSamples) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments single = quiet_arguments(1);
  single.learning_rate = 0;
  single.num_train_epochs = 1;
  single.train_sampling_strategy = "sequential";
  Trainer alone(model, single, tiny_samples(28, 5));
  alone.train();
  const std::vector<double> of_samples = logged(alone.state(), "loss");
  ASSERT_EQ(of_samples.size(), 28U);

  // Two epochs of 28: 4, 4, 4, then 8, 8 (the last micro-batch of the epoch at 28), 8, 8, and 16 from 44 on.
  const std::vector<int64_t> batches = {4, 4, 4, 8, 8, 8, 8, 12};
  for (const char* order : {"micro_batch", "layer_major"}) {
    TrainingArguments args = ramped();
    args.learning_rate = 0;
    args.num_train_epochs = 2;
    args.accumulation_order = order;
    Trainer trainer(model, args, tiny_samples(28, 5));
    const TrainOutput output = trainer.train();
    EXPECT_EQ(output.global_step, static_cast<int64_t>(batches.size()));
    EXPECT_EQ(trainer.state().max_steps, static_cast<int64_t>(batches.size()));
    const std::vector<double> losses = logged(trainer.state(), "loss");
    const std::vector<double> epochs = logged(trainer.state(), "epoch");
    ASSERT_EQ(losses.size(), batches.size());
    int64_t consumed = 0;
    for (size_t step = 0; step < batches.size(); ++step) {
      double sum = 0;
      for (int64_t i = 0; i < batches[step]; ++i) sum += of_samples[static_cast<size_t>((consumed + i) % 28)];
      consumed += batches[step];
      EXPECT_NEAR(losses[step], sum / static_cast<double>(batches[step]), 16 * 0x1p-23 * losses[step])
          << order << " step " << step;
      EXPECT_DOUBLE_EQ(epochs[step], static_cast<double>(consumed) / 28) << order << " step " << step;
    }
    EXPECT_EQ(metric_number(output.metrics.at("memory_arena_predicted_bytes")),
              metric_number(output.metrics.at("memory_arena_measured_bytes")));
  }
}

// Before its first change a ramp is the run with the small batch: the same steps and dropout masks, up to the
// order of the sums. SGD, because AdamW makes whole steps of gradients that are rounding alone.
TEST(BatchSizeRamp, BeginsAsTheSmallBatch) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  TrainingArguments ramp = ramped();
  ramp.max_steps = 3;
  ramp.optim = "sgd";
  ramp.learning_rate = 0.1;
  ramp.lr_scheduler_type = "constant";
  TrainingArguments small = ramp;
  small.gradient_accumulation_steps = 1;
  small.batch_size_ramp = {};
  Trainer first(model, small, tiny_samples(28, 5));
  first.train();
  Trainer second(model, ramp, tiny_samples(28, 5));
  second.train();
  const std::vector<double> a = logged(first.state(), "loss");
  const std::vector<double> b = logged(second.state(), "loss");
  ASSERT_EQ(a.size(), b.size());
  // A gradient has the roundings of the forward, of the backward, and of a sum over the tokens of 4 samples.
  for (size_t i = 0; i < a.size(); ++i) {
    const double roundings = static_cast<double>(i + 1) * (2 * kTinyBertRoundings + 4 * 20);
    EXPECT_NEAR(a[i], b[i], rounding_error(roundings, b[i])) << "step " << i + 1;
  }
}

}  // namespace
}  // namespace shoehorn
