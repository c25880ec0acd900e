#include "session/session.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/backend/host_backend.h"
#include "exec/null/null_backend.h"
#include "tasks/single_label_classification.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr int64_t kTokens = 64;
constexpr int64_t kSequences = 4;

SessionOptions options_for(int64_t tokens = kTokens) {
  SessionOptions options;
  options.train = {tokens, kSequences, 20};
  return options;
}

// V 61, H 24, F 40, P 24 positions, 2 types, L 2 layers, C 3 classes.
constexpr int64_t kHidden = 24;
constexpr int64_t kLinearWeights = 4 * kHidden * kHidden + 2 * kHidden * 40;
constexpr int64_t kLayerParameters = kLinearWeights + 4 * kHidden + 40 + kHidden + 4 * kHidden;
constexpr int64_t kParameters = (61 + 24 + 2) * kHidden + 2 * kHidden + 2 * kLayerParameters +
                                kHidden * kHidden + kHidden + 3 * kHidden + 3;

TEST(Session, CountsParametersAndWork) {
  const BertForSequenceClassification model(tiny_bert());
  const Session session(model, options_for());
  EXPECT_EQ(session.parameter_count(), kParameters);
  // A product costs 2 flops a weight and row, in forward and twice in backward; attention's come on top.
  // Behind the last attention rows are of sequences.
  const double all_rows = kLinearWeights + 3 * kHidden * kHidden;
  const double linear = 6.0 * (kTokens * all_rows + kSequences * (kLinearWeights - 3 * kHidden * kHidden));
  EXPECT_GT(session.step_product_flops(), linear);
  EXPECT_LT(session.step_product_flops(), 1.5 * linear);
  EXPECT_GT(session.step_flops(), session.step_product_flops());
}

TEST(Session, WorkOfAStepGrowsWithMicroBatchesAndRecompute) {
  const BertForSequenceClassification model(tiny_bert());
  const Session one(model, options_for());
  SessionOptions options = options_for();
  options.step.gradient_accumulation_steps = 4;
  const Session four(model, options);
  EXPECT_NEAR(four.step_product_flops(), 4 * one.step_product_flops(), 1e-3 * four.step_product_flops());
  options.step.accumulation_order = AccumulationOrder::kLayer;
  const Session layer_major(model, options);
  EXPECT_NEAR(layer_major.step_product_flops(), four.step_product_flops(), 1e-3 * four.step_product_flops());
  options = options_for();
  options.step.recompute_every_n_layers = 1;
  const Session recompute(model, options);
  EXPECT_GT(recompute.step_flops(), one.step_flops());
  EXPECT_LT(recompute.step_flops(), 4.0 / 3 * one.step_flops());
}

// Plans as another backend, and counts how often the code that it made is to be freed.
class CountingBackend final : public HostBackend {
 public:
  explicit CountingBackend(std::shared_ptr<const Backend> plans) : plans_(std::move(plans)) {}

  int64_t releases() const { return releases_; }

  const MachineProfile& machine() const override { return plans_->machine(); }
  int64_t workspace_bytes(const Program& program, const Node& node) const override {
    return plans_->workspace_bytes(program, node);
  }
  void release_unused_code() const override { ++releases_; }
  PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                       Stream& stream) const override {
    return plans_->prepare(program, node, buffers, stream);
  }
  MachineLimits measure_limits() const override { return plans_->measure_limits(); }
  std::vector<ArithmeticPeak> measure_arithmetic_peaks() const override { return {}; }
  int64_t rows_of_full_tiles(DType operands) const override { return plans_->rows_of_full_tiles(operands); }

 private:
  std::shared_ptr<const Backend> plans_;
  mutable int64_t releases_ = 0;
};

TEST(Session, CodeOutlivesTheSessionWhereAskedFor) {
  const BertForSequenceClassification model(tiny_bert());
  for (const bool keeps_code : {false, true}) {
    const auto backend = std::make_shared<const CountingBackend>(make_null_backend());
    SessionOptions options = options_for();
    options.backend = backend;
    options.keeps_code = keeps_code;
    {
      const Session session(model, options);
    }
    EXPECT_EQ(backend->releases(), keeps_code ? 0 : 1);
  }
}

TEST(Session, PlanIsTheSameEachTimeAndReservesNothing) {
  const BertForSequenceClassification model(tiny_bert());
  Session first(model, options_for());
  const Session second(model, options_for());
  EXPECT_FALSE(first.is_reserved());
  EXPECT_EQ(first.plan().arena_bytes(), second.plan().arena_bytes());
  EXPECT_EQ(first.plan().storage_offset, second.plan().storage_offset);
  EXPECT_FALSE(first.passes().empty());
  EXPECT_GT(first.planning_seconds(), 0);
  first.reserve();
  EXPECT_TRUE(first.is_reserved());
  EXPECT_EQ(first.executor().arena_bytes(), first.plan().arena_bytes());
}

TEST(Session, AComparedPlanIsNearlyThatOfTheRun) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  for (const int64_t every : {0, 1}) {
    for (const int64_t steps : {1, 4}) {
      SessionOptions options = options_for();
      options.step.recompute_every_n_layers = every;
      options.step.gradient_accumulation_steps = steps;
      const Session run(model, options);
      options.is_compared = true;
      const Session compared(model, options);
      const SpacePlan& least = run.plan().device();
      const SpacePlan& near = compared.plan().device();
      EXPECT_EQ(near.persistent_bytes, least.persistent_bytes);
      EXPECT_EQ(near.transient_lower_bound_bytes, least.transient_lower_bound_bytes);
      EXPECT_LE(near.transient_bytes,
                std::max(least.transient_bytes, near.transient_lower_bound_bytes * 1025 / 1024));
      EXPECT_EQ(compared.step_flops(), run.step_flops());
    }
  }
}

TEST(Session, RowsThatAreNotComputedTakeNoMemory) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  for (const int64_t every : {0, 1}) {
    for (const bool layer_major : {false, true}) {
      SessionOptions options = options_for();
      options.step.recompute_every_n_layers = every;
      options.step.gradient_accumulation_steps = 4;
      if (layer_major) options.step.accumulation_order = AccumulationOrder::kLayer;
      const int64_t gathered = Session(model, options).plan().arena_bytes();
      options.step.skip_passes = {"gather_early"};
      EXPECT_LE(gathered, Session(model, options).plan().arena_bytes()) << every << layer_major;
    }
  }
}

TEST(Session, EvaluationAloneKeepsNoOptimizerState) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options;
  options.kind = RunKind::kEvaluate;
  options.evaluation = {64, 4, 20};
  const Session session(model, options);
  EXPECT_EQ(session.family().programs.size(), 1U);
  EXPECT_TRUE(session.family().find(ProgramKind::kEvaluate).valid());
  for (const Storage& storage : session.state().storages())
    EXPECT_NE(storage.role, Role::kOptimizerState) << storage.name;
  EXPECT_LT(session.plan().device().persistent_bytes, 5 * kParameters);
}

// A parameter that the loss does not depend on would silently never be trained.
class UnusedParameter final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    const Initializer normal{Initializer::Kind::kNormal, 0.02F, -1};
    builder.embedding(builder.parameter("forgotten.weight", {50, 8}, normal),
                      builder.input(BatchColumn::kTokenTypeIds));
    Tensor x = builder.embedding(builder.parameter("words.weight", {50, 8}, normal),
                                 builder.input(BatchColumn::kInputIds));
    return builder.linear(builder.first_tokens(x), builder.parameter("head.weight", {2, 8}, normal),
                          builder.parameter("head.bias", {2}, {}));
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 20; }
  int64_t vocab_size() const override { return 50; }

 private:
  SingleLabelClassification task_{2};
};

TEST(Session, ParameterWithoutGradientIsRefusedByName) {
  try {
    const Session session(UnusedParameter(), options_for());
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("forgotten.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shoehorn
