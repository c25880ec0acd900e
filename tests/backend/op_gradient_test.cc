// Every op that has a gradient, fused and unfused, on the CPU executor with poisoned memory: its forward
// against a naive double-precision reference, the gradients of all its inputs against central differences of
// that reference. A second micro-batch with other values must add to the first one's gradients.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "autodiff/backward.h"
#include "conformance_backend.h"
#include "exec/executor_testing.h"
#include "op_gradient_cases.h"
#include "ops/op_info.h"
#include "ops/verify.h"
#include "passes/accumulate.h"
#include "passes/fuse_vocabulary_gradient.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class OpGradient : public testing::TestWithParam<OpCase> {
 protected:
  // Values that fp32 holds exactly, so that the reference computes with the same numbers.
  static Doubles random(int64_t count, uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    Doubles values;
    for (int64_t i = 0; i < count; ++i) {
      float value = normal(generator);
      if (std::abs(value) < 0.01F) value = 0.01F;  // away from relu's kink
      values.push_back(value);
    }
    return values;
  }
  static int64_t elements(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (const int64_t dim : shape) product *= dim;
    return product;
  }
  Inputs inputs(uint32_t seed) const {
    Inputs made;
    for (const auto& shape : op_.shapes) made.push_back(random(elements(shape), seed += 100));
    return made;
  }
  // The loss: of y times a frozen matrix.
  double loss(const Inputs& x) const {
    const Doubles& mixing = op_.makes_logits() ? x.back() : mixing_;
    const Doubles logits =
        matmul_reference(op_.reference(x), false, mixing, true, op_.rows, kClasses, op_.columns);
    const auto elements = static_cast<double>(op_.rows * kClasses);
    if (op_.loss == OpKind::kMeanSquaredError) return mean_squared_error_reference(logits, values_, elements);
    if (op_.loss == OpKind::kBinaryCrossEntropy)
      return binary_cross_entropy_reference(logits, values_, elements, weights_);
    return cross_entropy_reference(logits, labels_, static_cast<double>(op_.rows), op_.smoothing, op_.z_loss,
                                   weights_);
  }
  Inputs differences(Inputs x) const {
    Inputs gradients = x;
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x[i].size(); ++j) {
        const double value = x[i][j];
        const double h = 1e-5;
        x[i][j] = value + h;
        const double above = loss(x);
        x[i][j] = value - h;
        gradients[i][j] = (above - loss(x)) / (2 * h);
        x[i][j] = value;
      }
    }
    return gradients;
  }
  void build() {
    std::vector<ValueId> x;
    for (const auto& shape : op_.shapes) x.push_back(graph_.parameter(shape));
    const ValueId y = op_.build(graph_, x);
    for (int64_t row = 0; row < op_.rows; ++row) labels_.push_back(static_cast<int32_t>(row * 3 % kClasses));
    if (op_.ignored_row >= 0) labels_[static_cast<size_t>(op_.ignored_row)] = -100;
    Program& program = graph_.program();
    const ValueId loss = op_.makes_logits() ? loss_of_vocabulary(y, x.back()) : loss_of_logits(y);
    program.add_result("loss", loss);
    Program forward = program;
    forward.set_kind(ProgramKind::kEvaluate);
    forward.add_result("y", y);
    family_.gradients = {append_backward(program, loss)};
    family_.loss = family_.state->add_storage({"loss", {DType::kF32, {1}}, Role::kScalar, {}, {}});
    family_.programs.push_back(std::move(program));
    StepOptions step;
    step.gradient_accumulation_steps = 2;
    if (op_.joins_gradients) fuse_vocabulary_gradient(family_, step);
    accumulate(family_, step);
    family_.programs.back() = std::move(forward);  // in the place of an empty update
    for (const Program& made : family_.programs) verify(made);
  }
  ValueId loss_of_logits(ValueId y) {
    const ValueId logits = graph_.op(OpKind::kMatmul, {y, graph_.parameter({kClasses, op_.columns}, false)},
                                     MatmulAttributes{.transpose_b = true});
    const bool of_classes = op_.loss == OpKind::kCrossEntropy;
    const ValueId targets =
        of_classes ? graph_.integers(labels_) : graph_.parameter({op_.rows, kClasses}, false);
    std::vector<ValueId> inputs = {logits, targets, target_count()};
    if (!op_.class_weights.empty())
      inputs.insert(inputs.end(), {ValueId{}, graph_.floats(op_.class_weights)});
    return graph_.op(op_.loss, std::move(inputs), of_classes ? Attributes(settings()) : Attributes());
  }
  ValueId loss_of_vocabulary(ValueId y, ValueId weight) {
    return graph_.op(op_.loss, {y, weight, graph_.integers(labels_), target_count()}, settings());
  }
  ValueId target_count() { return graph_.scalar(static_cast<float>(op_.rows)); }
  LossAttributes settings() const {
    return {static_cast<float>(op_.smoothing), static_cast<float>(op_.z_loss)};
  }
  void write(Executor& executor, const Inputs& x) const {
    for (size_t i = 0; i < x.size(); ++i) {
      set_values(executor, graph_.parameters()[i], std::vector<float>(x[i].begin(), x[i].end()));
    }
  }
  // Sums of up to rows · columns terms, a few ops deep; of the largest value in the tensor, at least `floor`.
  void expect_near(const std::vector<float>& found, const Doubles& expected, double floor,
                   const std::string& what) const {
    double scale = floor;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    const double tolerance =
        op_.epsilon * (16 + std::sqrt(static_cast<double>(op_.rows * op_.columns))) * scale;
    double error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(found[i] - expected[i]);
      error = std::isnan(difference) ? difference : std::max(error, difference);
      ASSERT_LE(error, tolerance) << what << " at " << i << ": " << found[i] << ", expected " << expected[i];
    }
  }

  const OpCase& op_ = GetParam();
  ProgramFamily family_;
  Graph graph_{family_};
  std::vector<int32_t> labels_;
  Doubles weights_ = Doubles(op_.class_weights.begin(), op_.class_weights.end());
  Doubles mixing_ = random(kClasses * op_.columns, 5);
  Doubles values_ = random(op_.rows * kClasses, 6);
};

TEST_P(OpGradient, ForwardAndBackward) {
  build();
  const auto backend = conformance_backend(2);
  const MemoryPlan plan = plan_memory(*family_.state, family_.programs, *backend);
  Executor executor(*family_.state, family_.programs, plan, *backend, {.poison = true});
  graph_.write_constants(executor);
  if (!graph_.frozen().empty())
    set_values(executor, graph_.frozen()[0], std::vector<float>(mixing_.begin(), mixing_.end()));
  if (graph_.frozen().size() > 1)
    set_values(executor, graph_.frozen()[1], std::vector<float>(values_.begin(), values_.end()));

  const Inputs first = inputs(1);
  write(executor, first);
  const ProgramId forward = family_.find(ProgramKind::kEvaluate);
  executor.run(forward, {});
  const ValueId y = family_.programs.back().result("y");
  expect_near(values_of<float>(executor, forward, y), op_.reference(first), 1, "y");

  const auto gradient = [&](size_t i) {
    const std::string name = family_.state->storage(graph_.parameters()[i]).name + ".gradient";
    return values_of<float>(executor, family_.state->find_storage(name));
  };
  executor.run(family_.find(ProgramKind::kMicroBatchFirst), {});
  Inputs expected = differences(first);
  double total = loss(first);
  expect_near(values_of<float>(executor, family_.loss), {total}, 1, "loss");
  for (size_t i = 0; i < first.size(); ++i)
    expect_near(gradient(i), expected[i], 0.1, fmt::format("gradient {}", i));

  const Inputs second = inputs(2);
  write(executor, second);
  executor.run(family_.find(ProgramKind::kMicroBatchNext), {});
  const Inputs more = differences(second);
  total += loss(second);
  expect_near(values_of<float>(executor, family_.loss), {total}, 1, "loss of both");
  for (size_t i = 0; i < second.size(); ++i) {
    expect_near(gradient(i), add_reference(expected[i], more[i]), 0.1, fmt::format("gradient {} of both", i));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpGradient, testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(OpGradientCases, HoldEveryOpThatHasAGradient) {
  std::set<OpKind> tested;
  for (const OpCase& op : op_cases()) {
    ProgramFamily family;
    Graph graph(family);
    std::vector<ValueId> x;
    for (const auto& shape : op.shapes) x.push_back(graph.parameter(shape));
    op.build(graph, x);
    for (const Node& node : graph.program().nodes()) tested.insert(node.kind);
    tested.insert(op.loss);
  }
  for (int kind = 0; kind < static_cast<int>(OpKind::kOpKindCount); ++kind) {
    const OpInfo& info = op_info(static_cast<OpKind>(kind));
    EXPECT_TRUE(info.gradient == nullptr || tested.contains(info.kind)) << info.name;
  }
}

}  // namespace
}  // namespace shoehorn
