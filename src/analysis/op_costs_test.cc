#include "analysis/op_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "analysis/analysis_testing.h"
#include "analysis/step_time.h"
#include "arguments/step_settings.h"
#include "base/error_testing.h"
#include "exec/backends.h"
#include "model/task.h"
#include "models/bert.h"

namespace shoehorn {
namespace {

constexpr MachineLimits kMachine = {.fp32_flops = 1e11, .bf16_flops = 4e11, .bytes_per_second = 1e10};

OpWork product(double rows, double columns, double inner) {
  return {.op = "matmul",
          .kind = "matmul n n",
          .op_class = OpClass::kContraction,
          .flops = 2 * rows * columns * inner,
          .bytes = 4 * ((rows * inner) + (inner * columns) + (rows * columns)),
          .sizes = {std::log2(rows), std::log2(columns), std::log2(inner)}};
}

// What a product takes on a made-up machine: small ones are less efficient.
double seconds_of(const OpWork& work) {
  return ((work.flops / 1e11) + (work.bytes / 1e10)) * (1.2 + (8 / work.sizes[0]));
}

std::vector<OpSample> samples() {
  std::vector<OpSample> all;
  for (const double rows : {64.0, 512.0, 4096.0}) {
    for (const double columns : {256.0, 1024.0, 4096.0}) {
      const OpWork work = product(rows, columns, 1024);
      all.push_back({work, seconds_of(work)});
    }
  }
  return all;
}

TEST(OpCostsTest, ATimedShapeTakesWhatItTook) {
  const OpCosts costs(kMachine, samples());
  for (const OpSample& sample : samples()) {
    const OpEstimate estimate = costs.estimate(sample.work);
    EXPECT_TRUE(estimate.is_measured);
    EXPECT_NEAR(estimate.seconds / sample.seconds, 1, 0.02);  // the noise of a measurement
    EXPECT_LT(estimate.error, 0.04);
  }
}

TEST(OpCostsTest, BetweenShapesTimesGoFromOneToTheOther) {
  const OpCosts costs(kMachine, samples());
  const OpWork between = product(1448, 2048, 1024);
  const OpEstimate estimate = costs.estimate(between);
  EXPECT_NEAR(estimate.seconds / seconds_of(between), 1, 0.05);
  const OpEstimate far = costs.estimate(product(1 << 20, 1 << 15, 1 << 15));
  EXPECT_GT(far.error, 1.5 * estimate.error) << "the uncertainty grows with the distance";
}

TEST(OpCostsTest, AKindThatNobodyTimedIsLessCertain) {
  const OpCosts costs(kMachine, samples());
  OpWork other = product(512, 1024, 1024);
  other.kind = "matmul t n";
  const OpEstimate estimate = costs.estimate(other);
  EXPECT_FALSE(estimate.is_measured);
  EXPECT_NEAR(estimate.seconds / seconds_of(other), 1, 0.1);
  EXPECT_GT(estimate.error, 0.2);
  other.op = other.kind = "attention";
  EXPECT_GT(costs.estimate(other).error, 0.4);
}

TEST(OpCostsTest, TheClockScalesProductsAndTheRestApart) {
  OpCosts costs(kMachine, samples());
  const OpWork work = product(512, 1024, 1024);
  OpWork update = work;
  update.kind = update.op = "adamw";
  update.op_class = OpClass::kUpdate;
  const double before = costs.estimate(work).seconds;
  const double update_before = costs.estimate(update).seconds;
  costs.set_clock({.products = 1.5, .memory = 3});
  EXPECT_DOUBLE_EQ(costs.estimate(work).seconds, 1.5 * before);
  EXPECT_DOUBLE_EQ(costs.estimate(update).seconds, 3 * update_before);
}

TEST(OpCostsTest, SamplesGoThroughJson) {
  const OpCosts costs(kMachine, samples());
  const OpCosts read(kMachine, op_samples_from_json(to_json(costs.samples()), "file"));
  ASSERT_EQ(read.samples().size(), costs.samples().size());
  const OpWork work = product(100, 200, 300);
  EXPECT_EQ(read.estimate(work).seconds, costs.estimate(work).seconds);
  nlohmann::json damaged = to_json(costs.samples());
  damaged[1]["seconds"] = 0;
  EXPECT_TRUE(refusal_of([&] { op_samples_from_json(damaged, "file"); }).starts_with("[file]"));
  EXPECT_TRUE(refusal_of([&] { op_samples_from_json("text", "file"); }).starts_with("[file]"));
}

// A machine whose times are the sums of work at its rates: no factor.
OpCosts plain_costs(const Session& session) {
  std::vector<OpSample> all;
  for (const Program& program : session.family().programs) {
    for (const Node& node : program.nodes()) {
      const OpContext context{program, node};
      const OpWork work = op_work(context, op_info(node.kind).cost(context));
      if (work.flops + work.bytes > 0)
        all.push_back({work, 1e-6 + (work.flops / kMachine.product_flops(work.operands)) +
                                 (work.bytes / kMachine.bytes_per_second)});
    }
  }
  return {kMachine, std::move(all)};
}

class StepTimeTest : public testing::Test {
 protected:
  StepTimeTest() : model_(test_support::two_layer_bert()) {}
  std::unique_ptr<Session> session(int64_t micro_batches) const {
    TrainingArguments args;
    args.gradient_accumulation_steps = micro_batches;
    SessionOptions options;
    options.step = step_options_of(resolved(args));
    options.train = {.tokens = 1024, .sequences = 8, .longest_sequence = 128};
    return std::make_unique<Session>(model_, std::move(options));
  }
  BertForSequenceClassification model_;
};

TEST_F(StepTimeTest, IsTheSumOfItsNodesAsOftenAsTheyRun) {
  const auto one = session(1);
  const auto four = session(4);
  const OpCosts costs = plain_costs(*four);
  const StepTime time = calibrated_step_time(*four, costs);
  EXPECT_TRUE(time.is_calibrated);
  EXPECT_EQ(time.unmeasured_share, 0);
  EXPECT_GT(time.seconds, least_step_time(*four, kMachine).seconds);
  // Four micro-batches and one update.
  const double single = calibrated_step_time(*one, plain_costs(*one)).seconds;
  EXPECT_GT(time.seconds, 2.5 * single);
  EXPECT_LT(time.seconds, 4.2 * single);
  EXPECT_LT(time.error, 0.1);
}

TEST_F(StepTimeTest, ShortSamplesTakeLessAndAttentionWithTheSquare) {
  const auto planned = session(1);
  const OpCosts costs = plain_costs(*planned);
  const auto seconds = [&](double mean, double mean_square) {
    return calibrated_step_time(*planned, costs,
                                SampleLengths{.mean = mean, .mean_square = mean_square, .samples = 8})
        .seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(128, 128 * 128), calibrated_step_time(*planned, costs).seconds);
  EXPECT_LT(seconds(32, 32 * 32), 0.6 * seconds(128, 128 * 128));
  EXPECT_LT(seconds(32, 32 * 32), 0.999 * seconds(32, 32 * 128)) << "equal tokens, in longer sequences";
}

TEST_F(StepTimeTest, EveryKindOfTimeIsOfTheLengths) {
  const auto planned = session(1);
  const OpCosts costs = plain_costs(*planned);
  const Device device{.figures = {{"float32", 1e11}, {"bandwidth", 1e10}}};
  using Lengths = std::optional<SampleLengths>;
  const std::vector<std::function<double(const Lengths&)>> kinds = {
      [&](const Lengths& lengths) { return least_step_time(*planned, kMachine, lengths).seconds; },
      [&](const Lengths& lengths) { return rated_step_time(*planned, device, lengths).seconds; },
      [&](const Lengths& lengths) { return calibrated_step_time(*planned, costs, lengths).seconds; }};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto seconds = [&](double mean, double mean_square) {
      return kinds[kind](SampleLengths{.mean = mean, .mean_square = mean_square, .samples = 8});
    };
    EXPECT_DOUBLE_EQ(seconds(128, 128 * 128), kinds[kind]({})) << kind;
    EXPECT_LT(seconds(32, 32 * 32), 0.6 * seconds(128, 128 * 128)) << kind;
    EXPECT_LT(seconds(32, 32 * 32), 0.999 * seconds(32, 32 * 128)) << kind;
  }
}

// Steps of ten short samples and one long one: their mean is no less than what the mean lengths are said to take at least.
TEST_F(StepTimeTest, ALowerBoundIsNoMoreThanTheMean) {
  const auto planned = session(1);
  const auto seconds = [&](double mean, double mean_square) {
    return least_step_time(*planned, kMachine,
                           SampleLengths{.mean = mean, .mean_square = mean_square, .samples = 8})
        .seconds;
  };
  const double mean = (10 * 5.0 + 128) / 11;
  const double of_batches = (10 * seconds(5, 5 * 5) + seconds(128, 128 * 128)) / 11;
  EXPECT_LE(seconds(mean, (10 * 5.0 * 5 + 128 * 128) / 11), of_batches);
  EXPECT_LT(seconds(1, 2), seconds(2, 4)) << "8 tokens are not filled up to 16";
}

TEST_F(StepTimeTest, LengthsAreThoseOfTheSamples) {
  const Dataset data = Dataset::alike(10, 128, model_.task().label_shape());
  const SampleLengths lengths = sample_lengths(data, 4);
  EXPECT_DOUBLE_EQ(lengths.mean, 128);
  EXPECT_DOUBLE_EQ(lengths.attended(), 128);
  EXPECT_EQ(lengths.samples, 4);
}

TEST_F(StepTimeTest, OfADeviceFollowsItsFigures) {
  const auto planned = session(1);
  Device device{.figures = {{"float32", 1e11}, {"bandwidth", 1e10}}};
  EXPECT_DOUBLE_EQ(rated_step_time(*planned, device).seconds, least_step_time(*planned, kMachine).seconds);
  device.figures = {{"float32", 2e11}, {"bandwidth", 2e10}};
  EXPECT_DOUBLE_EQ(rated_step_time(*planned, device).seconds,
                   least_step_time(*planned, kMachine).seconds / 2);
}

TEST_F(StepTimeTest, SaysWhatItIs) {
  EXPECT_EQ(format_step_time({.seconds = 0.5}),
            "no less than 0.500 s by the machine's rates (not calibrated)");
  EXPECT_EQ(format_step_time({.seconds = 0.5, .error = 0.031, .is_calibrated = true}),
            "0.500 s ± 4 % (calibrated)");
  EXPECT_EQ(to_json(StepTime{.seconds = 1})["step_seconds_are"], "lower bound");
}

}  // namespace
}  // namespace shoehorn
