// What low-rank adapters promise: a start that is the base model, training that moves nothing else, a merged
// model that answers as the adapted one, and a plan that is smaller by what is frozen.
#include <gtest/gtest.h>

#include "plan/memory_plan.h"
#include "toy_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

StepOptions adapted(Precision precision = Precision::kFloat32) {
  StepOptions step;
  step.precision = precision;
  step.loss_scale.initial = 256;
  step.lora = {.rank = 4, .alpha = 6, .targets = {"query", "value", "output.dense"}};
  return step;
}

Weights with_zero_b(Weights weights) {
  for (auto& [name, values] : weights) {
    if (name.ends_with("lora_B.weight")) std::fill(values.begin(), values.end(), 0.0F);
  }
  return weights;
}

const std::vector<int32_t> kAll = {0, 1, 2, 3, 4, 5};

class LoraPrecision : public testing::TestWithParam<Precision> {};

// With B at zero the adapters add zeros: the logits are those of the base model, bit for bit.
TEST_P(LoraPrecision, StartsAsTheBaseModel) {
  const BertForSequenceClassification model(small_bert());
  const std::vector<Sample> samples = random_samples(6, 3);
  StepOptions step = adapted(GetParam());
  TrainingRun with(model, session_options(step));
  write_weights(with.session(), with_zero_b(random_weights(with.session())));
  step.lora = {};
  TrainingRun without(model, session_options(step));
  EXPECT_EQ(with.evaluate(samples, kAll, 3), without.evaluate(samples, kAll, 3));
}

TEST_P(LoraPrecision, TrainingMovesAdaptersAndTheClassifierAlone) {
  TrainingRun run(BertForSequenceClassification(small_bert()), session_options(adapted(GetParam())));
  const Weights before = read_weights(run.session());
  for (uint32_t i = 0; i < 3; ++i) run.step(random_samples(6, 17 + i), {kAll}, 1e-2F);
  const Weights after = read_weights(run.session());
  for (const Parameter& parameter : run.session().state().parameters()) {
    EXPECT_EQ(before.at(parameter.name) != after.at(parameter.name),
              parameter.is_adapter || parameter.name.starts_with("classifier"))
        << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, LoraPrecision,
                         testing::Values(Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16),
                         [](const auto& info) {
                           if (info.param == Precision::kFloat16) return "fp16";
                           return info.param == Precision::kFloat32 ? "fp32" : "bf16";
                         });

// Two fp32 programs of one function: sums of up to 40 terms, 3 layers deep.
TEST(LoraMerge, TheMergedModelAnswersAsTheAdapted) {
  const BertForSequenceClassification model(small_bert());
  const std::vector<Sample> samples = random_samples(6, 3);
  StepOptions step = adapted();
  TrainingRun with(model, session_options(step));
  Weights weights = read_weights(with.session());
  for (const LowRankAdapter& adapter : with.session().family().adapters.list) {
    const StateTable& state = with.session().state();
    std::vector<float>& w = weights.at(state.parameter(adapter.weight).name);
    const std::vector<float>& a = weights.at(state.parameter(adapter.a).name);
    const std::vector<float>& b = weights.at(state.parameter(adapter.b).name);
    const auto columns = static_cast<size_t>(state.parameter(adapter.weight).shape[1]);
    for (size_t i = 0; i < w.size(); ++i) {
      for (size_t r = 0; r < 4; ++r) w[i] += 1.5F * b[i / columns * 4 + r] * a[r * columns + i % columns];
    }
  }
  step.lora = {};
  TrainingRun merged(model, session_options(step));
  write_weights(merged.session(), weights);
  const std::vector<float> expected = merged.evaluate(samples, kAll, 3);
  const std::vector<float> found = with.evaluate(samples, kAll, 3);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 64 * 0x1p-23 * std::max(1.0F, std::abs(expected[i]))) << i;
}

// Bytes of the plan, by role, at the peak and in the persistent arena.
TEST(LoraPlan, FrozenWeightsTakeNoGradientStateOrActivation) {
  const BertForSequenceClassification model(small_bert());
  StepOptions step;
  SessionOptions options = session_options(step);
  options.evaluation = {};
  const Session full(model, options);
  options.step.lora.rank = 4;
  const Session with(model, options);
  const int64_t trained = with.trainable_parameter_count();
  // Three layers of 24: A and B of query and value, the classifier of three classes.
  EXPECT_EQ(trained, 3 * 2 * (4 * 24 + 24 * 4) + 3 * 24 + 3);
  EXPECT_EQ(full.trainable_parameter_count(), full.parameter_count());
  EXPECT_EQ(with.parameter_count(), full.parameter_count() + 3 * 2 * (4 * 24 + 24 * 4));
  const auto bytes = [](const Session& session, Role role) {
    int64_t sum = 0;
    for (const Storage& storage : session.state().storages())
      sum += storage.role == role ? storage.type.bytes() : 0;
    return sum;
  };
  EXPECT_EQ(bytes(with, Role::kOptimizerState), 8 * trained);
  EXPECT_EQ(bytes(full, Role::kOptimizerState), 8 * full.parameter_count());
  // Gradients and activations that are alive at any time; of values whose names begin so.
  const auto made = [](const Session& session, Role role, std::string_view prefix = "") {
    int64_t sum = 0;
    for (const ProgramPlan& program : session.plan().programs) {
      for (const Buffer& buffer : program.buffers)
        sum += buffer.role == role && buffer.name.starts_with(prefix) ? buffer.bytes : 0;
    }
    return sum;
  };
  EXPECT_EQ(made(with, Role::kGradient), 4 * trained);
  const int64_t of_adapters = made(with, Role::kActivation, "lora_");
  EXPECT_EQ(of_adapters, 3 * 2 * options.train.tokens * 4 * 4) << "x · A of query and value";
  EXPECT_LT(made(with, Role::kActivation) - of_adapters, made(full, Role::kActivation));
}

TEST(LoraStart, IsThatOfPeftAndFollowsFromTheSeed) {
  const BertForSequenceClassification model(small_bert());
  Session session(model, session_options(adapted()));
  session.reserve();
  const auto started = [&](uint64_t seed) {
    initialize_weights(session.state(), session.executor(), seed);
    return read_weights(session);
  };
  const Weights first = started(7);
  EXPECT_EQ(started(7), first);
  const Weights other = started(8);
  for (const LowRankAdapter& adapter : session.family().adapters.list) {
    const Parameter& a = session.state().parameter(adapter.a);
    const float bound = 1 / std::sqrt(static_cast<float>(a.shape[1]));
    float largest = 0;
    for (const float value : first.at(a.name)) largest = std::max(largest, std::abs(value));
    EXPECT_LE(largest, bound) << a.name;
    EXPECT_GT(largest, 0.75F * bound) << a.name;
    EXPECT_NE(first.at(a.name), other.at(a.name));
    for (const float value : first.at(session.state().parameter(adapter.b).name)) EXPECT_EQ(value, 0);
  }
}

}  // namespace
}  // namespace shoehorn
