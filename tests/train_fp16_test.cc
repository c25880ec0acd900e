// A float16 run from end to end: overflow is skipped, shown and counted, the scale recovers, the schedule
// waits; half-precision evaluation; the warning about bfloat16 checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"
#include "session/precision_report.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

TrainingArguments fp16_arguments() {
  TrainingArguments args = quiet_arguments(4);
  args.fp16 = true;
  args.max_steps = 20;
  return args;
}

TEST(TrainFp16, OverflowIsSkippedHalvesAndRecovers) {
  TrainingArguments args = fp16_arguments();
  args.initial_scale_power = 30;
  args.warmup_steps = 4;
  std::vector<std::string> lines;
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 3), {},
                  {.on_line = [&](const std::string& line) { lines.push_back(line); }});
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.global_step, 20) << "a skipped step is a step";
  const std::vector<double> scales = logged(trainer.state(), "loss_scale");
  const std::vector<double> skipped = logged(trainer.state(), "skipped_steps");
  const std::vector<double> rates = logged(trainer.state(), "learning_rate");
  ASSERT_GE(scales.size(), 20U);
  double scale = 0x1p30;
  int64_t applied = 0;
  int64_t skips = 0;
  for (size_t i = 0; i < 20; ++i) {
    // The rate of step s of warm-up from 0 to 1e-3 in 4 steps, then down to 0 at step 20; s counts updates.
    const double rate = applied < 4 ? 1e-3 * static_cast<double>(applied) / 4
                                    : 1e-3 * (20 - static_cast<double>(applied)) / 16;
    EXPECT_NEAR(rates[i], rate, 4 * 0x1p-53 * rate) << "step " << i << ": four operations in float64";
    const bool was_skipped = skipped[i] > static_cast<double>(skips);
    if (was_skipped) scale /= 2;
    ++(was_skipped ? skips : applied);
    EXPECT_EQ(skipped[i], static_cast<double>(skips));
    EXPECT_EQ(scales[i], scale) << "step " << i;
  }
  EXPECT_GT(skips, 3);
  EXPECT_GT(applied, 5) << "it recovers";
  EXPECT_EQ(metric_number(output.metrics.at("skipped_steps")), static_cast<double>(skips));
  EXPECT_EQ(metric_number(output.metrics.at("loss_scale")), scale);
  const std::string said = fmt::format("{} of 20 steps were skipped", skips);
  EXPECT_TRUE(
      std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return contains(line, said); }));
  for (const double loss : logged(trainer.state(), "loss")) EXPECT_TRUE(std::isfinite(loss));
}

// The same samples in the same order: float16 with a loss scale follows fp32.
TEST(TrainFp16, FollowsTheCurveOfFp32) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = fp16_arguments();
  args.initial_scale_power = 8;
  args.max_steps = 40;
  Trainer half(model, args, tiny_samples(28, 3));
  half.train();
  args.fp16 = false;
  args.initial_scale_power = TrainingArguments().initial_scale_power;
  Trainer single(model, args, tiny_samples(28, 3));
  single.train();
  const std::vector<double> a = logged(half.state(), "loss");
  const std::vector<double> b = logged(single.state(), "loss");
  ASSERT_EQ(a.size(), b.size());
  // A loss has the roundings of its forward. Its weights have those of the gradients that moved them (forward and
  // backward): of what the loss went down, it is off by the share by which those are.
  const auto [least, most] = std::minmax_element(b.begin(), b.end());
  const double tolerance = rounding_error(kTinyBertHalfRoundings, *most, DType::kF16) +
                           rounding_error(2 * kTinyBertHalfRoundings, *most - *least, DType::kF16);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "step " << i + 1;
  EXPECT_LT(b.back(), b.front());
}

TEST(TrainFp16, GrowsAfterItsWindow) {
  TrainingArguments args = fp16_arguments();
  args.initial_scale_power = 2;
  args.loss_scale_window = 6;
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 3));
  trainer.train();
  const std::vector<double> scales = logged(trainer.state(), "loss_scale");
  EXPECT_EQ(scales[4], 4);
  EXPECT_EQ(scales[5], 8);
  EXPECT_EQ(scales[11], 16);
}

// Evaluation with weights in half precision, in a run whose training is fp32 and in runs of their own, gives
// fp32's numbers up to the rounding of weights and activations, in fewer bytes.
TEST(HalfPrecisionEvaluation, AgreesInEveryKindOfRun) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(), R"({"model_type": "bert"})");
  const auto samples = [] { return tiny_samples(28, 3); };
  for (const bool fp16 : {true, false}) {
    TrainingArguments args = quiet_arguments(4);
    args.max_steps = 10;
    Trainer plain(model, args, samples(), samples());
    plain.train();
    plain.save_model(directory.path());
    (fp16 ? args.fp16_full_eval : args.bf16_full_eval) = true;
    Trainer trained(model, args, samples(), samples());
    trained.train();
    EXPECT_EQ(weights_of(trained.session()), weights_of(plain.session())) << "training is fp32 all the same";
    const double full = metric_number(plain.evaluate().at("eval_loss"));
    const double half = metric_number(trained.evaluate().at("eval_loss"));
    EXPECT_NE(half, full);
    // A loss follows its logits, one to one at most.
    double largest = 0;
    plain.predict([&](std::span<const float> logits) {
      for (const float logit : logits) largest = std::max(largest, std::abs(static_cast<double>(logit)));
    });
    const double tolerance =
        rounding_error(kTinyBertHalfRoundings, largest, fp16 ? DType::kF16 : DType::kBF16);
    EXPECT_NEAR(half, full, tolerance);

    Trainer loaded(model, args, {}, samples(), {.weights = directory.path()});
    EXPECT_NEAR(metric_number(loaded.evaluate().at("eval_loss")), full, tolerance);
    Trainer wide(model, quiet_arguments(4), {}, samples(), {.weights = directory.path()});
    EXPECT_EQ(metric_number(wide.evaluate().at("eval_loss")), full);
    EXPECT_LT(loaded.session().plan().device().persistent_bytes,
              wide.session().plan().device().persistent_bytes);
  }
}

TEST(HalfPrecisionEvaluation, TakesTheSplitMastersOfABfloat16RunAsTheyAre) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments(4);
  args.bf16 = true;
  args.bf16_full_eval = true;
  EXPECT_NO_THROW(Trainer(model, args, tiny_samples(8, 3), tiny_samples(8, 4)));
  args.bf16_full_eval = false;
  args.fp16_full_eval = true;
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { Trainer(model, args, tiny_samples(8, 3), tiny_samples(8, 4)); }),
               "[--fp16_full_eval]"));
}

TEST(Fp16Checkpoint, OfABfloat16ModelIsWarnedOf) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(), R"({"model_type": "bert"})");
  Trainer(model, quiet_arguments(4), tiny_samples(8, 3)).save_model(directory.path());
  const auto warnings = [&](bool fp16) {
    TrainingArguments args = quiet_arguments(4);
    args.fp16 = fp16;
    args.max_steps = 1;
    args.output_dir = (directory.path() / "out").string();
    int64_t count = 0;
    Trainer trainer(model, args, tiny_samples(8, 3), {},
                    {.weights = directory.path(), .on_line = [&](const std::string& line) {
                       count += contains(line, "trained in bfloat16") ? 1 : 0;
                     }});
    trainer.train();
    return count;
  };
  EXPECT_EQ(warnings(true), 0);
  for (const char* key : {"dtype", "torch_dtype"}) {
    const nlohmann::json config = {{"model_type", "bert"}, {key, "bfloat16"}};
    write_json_atomic(directory.path() / "config.json", config);
    EXPECT_EQ(warnings(true), 1) << key;
    EXPECT_EQ(warnings(false), 0) << key;
  }
}

TEST(PrecisionReport, SaysHowProductsRun) {
  MachineProfile machine{.products = "a library 1.2"};
  TrainingArguments args;
  EXPECT_EQ(format_precision(args, machine), "");
  args.fp16 = true;
  EXPECT_TRUE(contains(format_precision(args, machine),
                       "fp16 products: as fp32 panels: a library 1.2 has no fast ones"));
  EXPECT_TRUE(contains(format_precision(args, machine), "loss scale 2^16 at first, dynamic"));
  machine.fp16_products = true;
  EXPECT_TRUE(contains(format_precision(args, machine), "fp16 products: native; loss scale"));
  args.loss_scale = 128;
  EXPECT_TRUE(contains(format_precision(args), "loss scale 128, fixed"));
  args.fp16 = false;
  args.bf16 = true;
  EXPECT_TRUE(contains(format_precision(args), "bf16 products: "));
}

}  // namespace
}  // namespace shoehorn
