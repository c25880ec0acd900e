// Passes that call themselves exact, on against off: three AdamW steps with dropout leave bit-identical
// losses and weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/backends.h"
#include "toy_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

std::string precision_name(Precision precision) {
  if (precision == Precision::kFloat16) return "fp16";
  return precision == Precision::kFloat32 ? "fp32" : "bf16";
}

struct TrainedBert {
  std::vector<float> losses;
  std::vector<float> norms;
  Weights weights;
  bool operator==(const TrainedBert&) const = default;
};

TrainedBert train_bert(const StepOptions& step, int threads = 2) {
  SessionOptions options = session_options(step);
  options.backend = conformance_backend(threads);
  TrainingRun run(BertForSequenceClassification(small_bert()), options);
  TrainedBert trained;
  for (uint32_t i = 0; i < 3; ++i) {
    const std::vector<Sample> samples = random_samples(6, 17 + i);
    const Split split =
        step.gradient_accumulation_steps == 1 ? Split{{0, 1, 2, 3, 4, 5}} : Split{{0, 1, 2}, {3, 4}, {5}};
    trained.losses.push_back(run.step(samples, split, 1e-3F));
    EXPECT_FALSE(was_skipped(run.executor(), run.session().family().loss_scale)) << "step " << i;
    if (run.session().family().grad_norm.valid())
      trained.norms.push_back(run.executor().read_scalar<float>(run.session().family().grad_norm));
  }
  trained.weights = read_weights(run.session());
  return trained;
}

// Names the first difference instead of printing thousands of numbers.
void expect_identical(const TrainedBert& a, const TrainedBert& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, values] : b.weights)
    EXPECT_TRUE(a.weights.at(name) == values) << name << " differs";
}

struct Case {
  std::string name;
  std::function<void(StepOptions&)> base;     // both sides
  std::function<void(StepOptions&)> changed;  // one side
};

void PrintTo(const Case& exact, std::ostream* out) {
  *out << exact.name;
}

class ExactPass : public testing::TestWithParam<std::tuple<Case, Precision>> {
 protected:
  static StepOptions base() {
    StepOptions step;
    step.precision = std::get<1>(GetParam());
    step.loss_scale.initial = 256;  // no step of these is skipped
    step.optimizer.weight_decay = 0.01F;
    std::get<0>(GetParam()).base(step);
    return step;
  }
};

TEST_P(ExactPass, ThreeStepsAreBitIdentical) {
  StepOptions step = base();
  const TrainedBert off = train_bert(step);
  for (const float loss : off.losses) ASSERT_TRUE(std::isfinite(loss) && loss > 0);
  ASSERT_NE(off.losses[0], off.losses[2]);
  std::get<0>(GetParam()).changed(step);
  expect_identical(train_bert(step), off);
}

void nothing(StepOptions&) {}
void no_clipping(StepOptions& o) {
  o.max_grad_norm = 0;
  if (o.precision == Precision::kFloat16)
    o.loss_scale.fixed = 256;  // where updates do not wait for a dynamic one
}
void adapters(StepOptions& o) {
  o.lora = {.rank = 4, .alpha = 6, .dropout = 0.1F, .targets = {"all-linear"}};
}
void adapters_no_clipping(StepOptions& o) {
  o.lora = {.rank = 4, .dropout = 0.1F};
  no_clipping(o);
}
void adapters_layer_major(StepOptions& o) {
  o.gradient_accumulation_steps = 3;
  o.accumulation_order = AccumulationOrder::kLayer;
  adapters_no_clipping(o);
}
void adapters_8bit(StepOptions& o) {
  o.optimizer.settings = AdamW8bitSettings{.states = {.least_elements = 64}};
  adapters(o);
}
void layer_major(StepOptions& o) {
  o.gradient_accumulation_steps = 3;
  o.accumulation_order = AccumulationOrder::kLayer;
}
// Tensors of 64 elements and more, embeddings too: all but the biases have blocks of states.
void eight_bit_no_clipping(StepOptions& o) {
  o.optimizer.settings = AdamW8bitSettings{.states = {.least_elements = 64, .of_embeddings = true}};
  no_clipping(o);
}
void cut_gradients(StepOptions& o) {
  no_clipping(o);
  o.max_grad_value = 1e-3F;
}
void layer_major_no_clipping(StepOptions& o) {
  layer_major(o);
  no_clipping(o);
}

void noise(StepOptions& o) {
  o.neftune_noise_alpha = 5;
}
void noise_layer_major(StepOptions& o) {
  noise(o);
  layer_major(o);
}

void accumulated(StepOptions& o) {
  o.gradient_accumulation_steps = 3;
}
void half_the_values(StepOptions& o) {
  o.activation_budget = {.fraction = 0.5};
}
void least_values(StepOptions& o) {
  o.activation_budget = {.fraction = 0};
}
// Back to the ids.
void every_value(StepOptions& o) {
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* name : {"attention.qkv", "attention.attention", "attention.residual_norm",
                             "feed_forward.product", "feed_forward.residual_norm"})
      o.recompute_set.insert(fmt::format("layer.{}.{}", layer, name));
  }
  o.recompute_set.insert("embeddings.layer_norm");
}

// The same masks fall on the same elements: another would move the loss in its second digit.
TEST(RoundingOnlyPass, KeepsTheDropoutOfTheFirstStep) {
  for (const auto& set : {std::function<void(StepOptions&)>(nothing), {layer_major}, {adapters}}) {
    StepOptions step;
    set(step);
    const TrainedBert on = train_bert(step);
    for (const char* pass : {"gather_early", "fuse"}) {
      step.skip_passes = {pass};
      const TrainedBert off = train_bert(step);
      // Sums of up to 64 terms through two layers.
      constexpr float kRounding = 64 * 0x1p-23F;
      EXPECT_NEAR(on.losses[0], off.losses[0], kRounding * off.losses[0]) << pass;
      EXPECT_NEAR(on.norms[0], off.norms[0], 8 * kRounding * off.norms[0]) << pass;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Passes, ExactPass,
    testing::Combine(
        testing::Values(
            Case{"recompute_every_layer", nothing, [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
            Case{"recompute_every_2_layers", nothing, [](StepOptions& o) { o.recompute_every_n_layers = 2; }},
            Case{"recompute_unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; },
                 [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
            Case{"recompute_layer_major", layer_major, [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
            Case{"recompute_set_of_half", nothing, half_the_values},
            Case{"recompute_set_of_least", nothing, least_values},
            Case{"recompute_set_of_everything", nothing, every_value},
            Case{"recompute_set_layer_major", layer_major, half_the_values},
            Case{"recompute_set_accumulated", accumulated, half_the_values},
            Case{"recompute_set_update_in_backward", no_clipping,
                 [](StepOptions& o) {
                   every_value(o);
                   o.update_in_backward = true;
                 }},
            Case{"recompute_set_unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }, least_values},
            Case{"lora_recompute_set", adapters, half_the_values},
            Case{"rematerialize", nothing, [](StepOptions& o) { o.skip_passes = {"rematerialize"}; }},
            Case{"fuse_update", nothing, [](StepOptions& o) { o.skip_passes = {"fuse_update"}; }},
            Case{"update_in_backward", no_clipping, [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"update_in_backward_cut", cut_gradients, [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"no_gradient_to_cut", nothing, [](StepOptions& o) { o.max_grad_value = 1e30F; }},
            Case{"fuse_update_8bit", eight_bit_no_clipping, [](StepOptions& o) { o.skip_passes = {"fuse_update"}; }},
            Case{"update_in_backward_8bit", eight_bit_no_clipping, [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"update_in_layer_major_backward", layer_major_no_clipping, [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"accumulate_in_other_order", layer_major,
                 [](StepOptions& o) { o.accumulation_order = AccumulationOrder::kMicroBatch; }},
            Case{"lora_recompute", adapters, [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
            Case{"lora_rematerialize", adapters, [](StepOptions& o) { o.skip_passes = {"rematerialize"}; }},
            Case{"lora_fuse_update_8bit", adapters_8bit, [](StepOptions& o) { o.skip_passes = {"fuse_update"}; }},
            Case{"lora_update_in_backward", adapters_no_clipping, [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"lora_accumulate_in_other_order", adapters_layer_major,
                 [](StepOptions& o) { o.accumulation_order = AccumulationOrder::kMicroBatch; }},
            Case{"noise_recompute", noise, [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
            Case{"noise_rematerialize", noise, [](StepOptions& o) { o.skip_passes = {"rematerialize"}; }},
            Case{"noise_accumulate_in_other_order", noise_layer_major,
                 [](StepOptions& o) { o.accumulation_order = AccumulationOrder::kMicroBatch; }},
            Case{"all_at_once", no_clipping,
                 [](StepOptions& o) {
                   o.recompute_every_n_layers = 2;
                   o.update_in_backward = true;
                   o.skip_passes = {"rematerialize", "fuse_update"};
                 }}),
        testing::Values(Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16)),
    [](const auto& info) { return std::get<0>(info.param).name + "_" + precision_name(std::get<1>(info.param)); });

void no_masters(StepOptions& o) {
  o.master_weights = MasterWeights::kNone;
  no_clipping(o);
}
void no_masters_8bit(StepOptions& o) {
  no_masters(o);
  eight_bit_no_clipping(o);
}
void no_masters_layer_major(StepOptions& o) {
  no_masters_8bit(o);
  layer_major(o);
}

// What a weight is rounded by does not depend on when and with which others it is updated.
INSTANTIATE_TEST_SUITE_P(
    WithoutMasters, ExactPass,
    testing::Combine(
        testing::Values(
            Case{"recompute", no_masters, [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
            Case{"fuse_update", no_masters, [](StepOptions& o) { o.skip_passes = {"fuse_update"}; }},
            Case{"update_in_backward", no_masters, [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"fuse_update_8bit", no_masters_8bit,
                 [](StepOptions& o) { o.skip_passes = {"fuse_update"}; }},
            Case{"update_in_layer_major_backward_8bit", no_masters_layer_major,
                 [](StepOptions& o) { o.update_in_backward = true; }},
            Case{"accumulate_in_other_order", no_masters_layer_major,
                 [](StepOptions& o) { o.accumulation_order = AccumulationOrder::kMicroBatch; }}),
        testing::Values(Precision::kBfloat16)),
    [](const auto& info) { return std::get<0>(info.param).name; });

class Determinism : public testing::TestWithParam<Precision> {};

TEST_P(Determinism, TwoRunsAndTwoThreadCountsAreBitIdentical) {
  StepOptions step;
  step.precision = GetParam();
  step.loss_scale.initial = 256;
  const TrainedBert once = train_bert(step);
  expect_identical(train_bert(step), once);
  if (make_backend()->machine().isa == "AVX2") {
    GTEST_SKIP() << "two runs are alike; without AVX-512 oneDNN cuts the sums of small products by threads";
  }
  expect_identical(train_bert(step, 1), once);
}

TEST(DeterminismWithoutMasters, TwoThreadCountsAreBitIdentical) {
  StepOptions step;
  step.precision = Precision::kBfloat16;
  step.master_weights = MasterWeights::kNone;
  const TrainedBert once = train_bert(step);
  expect_identical(train_bert(step, 1), once);
  step.master_weights = MasterWeights::kFloat32;
  EXPECT_NE(train_bert(step).losses, once.losses);
}

TEST(MaxGradValue, CutsAfterTheNormIsTaken) {
  StepOptions step;
  const TrainedBert whole = train_bert(step);
  step.max_grad_value = 1e-3F;
  const TrainedBert cut = train_bert(step);
  EXPECT_EQ(cut.norms[0], whole.norms[0]);
  EXPECT_NE(cut.losses[1], whole.losses[1]);
}

TEST_P(Determinism, TheSeedSelectsTheMasks) {
  StepOptions step;
  step.precision = GetParam();
  step.loss_scale.initial = 256;
  const TrainedBert once = train_bert(step);
  step.seed = 43;
  EXPECT_NE(train_bert(step).losses, once.losses);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Determinism,
                         testing::Values(Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16),
                         [](const auto& info) { return precision_name(info.param); });

// Whether a case above is named after the pass.
bool is_held(const std::string& pass) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    if (!std::string(suite.name()).ends_with("/ExactPass")) continue;
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const std::string name = suite.GetTestInfo(k)->name();
      if (name.substr(name.find('/') + 1).starts_with(pass)) return true;
    }
  }
  return false;
}

TEST(PassList, EveryExactPassThatCanBeSkippedIsHeldToIt) {
  EXPECT_FALSE(is_held("no_such_pass"));
  for (const Pass& pass : pass_list()) {
    const bool exact = pass.exactness == Exactness::kExact && pass.can_skip;
    EXPECT_TRUE(!exact || is_held(pass.name)) << pass.name;
  }
}

TEST(PassList, SkippingAnUnknownPassIsTheUsersError) {
  StepOptions step;
  step.skip_passes = {"fuze"};
  try {
    Session session(BertForSequenceClassification(small_bert()), session_options(step));
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("fuze"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("recompute"), std::string::npos) << error.what();
  }
}

// The backward is not a technique: a run without it would train nothing.
TEST(PassList, NeededPassesCannotBeSkipped) {
  StepOptions step;
  step.skip_passes = {"backward"};
  EXPECT_THROW(Session(BertForSequenceClassification(small_bert()), session_options(step)), UserError);
}

}  // namespace
}  // namespace shoehorn
