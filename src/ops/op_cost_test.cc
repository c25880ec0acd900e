// What the training guides say of a transformer's operations, as statements about the op table.
#include <gtest/gtest.h>

#include "ops/op_builder.h"
#include "ops/op_info.h"

namespace shoehorn {
namespace {

class OpCost : public testing::Test {
 protected:
  ValueId read(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    return program_.read_state(state_.add_storage({name, {dtype, std::move(shape)}, Role::kWeight, {}, {}}));
  }
  Cost cost(ValueId value) const {
    const Node& node = program_.node(program_.value(value).producer);
    return op_info(node.kind).cost({program_, node});
  }

  StateTable state_;
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
};

constexpr int64_t kRows = 32;
constexpr int64_t kInputs = 24;
constexpr int64_t kOutputs = 40;

// y = x·Wᵀ; its two gradients are products of the same size each.
TEST_F(OpCost, LinearLayersHaveTwiceTheFlopsInTheBackward) {
  const ValueId x = read("x", {kRows, kInputs}), w = read("w", {kOutputs, kInputs});
  const ValueId dy = read("dy", {kRows, kOutputs});
  const double forward =
      cost(builder_.value(OpKind::kMatmul, {x, w}, MatmulAttributes{false, true}, "y")).flops;
  const double of_x =
      cost(builder_.value(OpKind::kMatmul, {dy, w}, MatmulAttributes{false, false}, "dx")).flops;
  const double of_w =
      cost(builder_.value(OpKind::kMatmul, {dy, x}, MatmulAttributes{true, false}, "dw")).flops;
  EXPECT_EQ(forward, 2.0 * kRows * kInputs * kOutputs);
  EXPECT_EQ(of_x + of_w, 2 * forward);
}

// A vocabulary's loss: one product, and one for each operand that is trained.
TEST_F(OpCost, AVocabularysLossHasAProductForEachOperand) {
  const ValueId x = read("x", {kRows, kInputs}), w = read("w", {kOutputs, kInputs});
  const ValueId labels = read("labels", {kRows}, DType::kI32), one = read("one", {1});
  constexpr double kProduct = 2.0 * kRows * kInputs * kOutputs;
  const ValueId loss =
      builder_.value(OpKind::kLinearCrossEntropy, {x, w, labels, one}, LossAttributes{}, "loss");
  EXPECT_EQ(cost(loss).flops, kProduct);
  EXPECT_EQ(cost(loss).bytes_read, 4.0 * (kRows * kInputs + kOutputs * kInputs + kRows + 1));
  for (const bool trains_weight : {false, true}) {
    const ValueId both = builder_.value(OpKind::kLinearCrossEntropyWithGrad, {x, w, labels, one},
                                        LinearLossGradAttributes{{}, true, trains_weight}, "loss");
    EXPECT_EQ(cost(both).flops, (trains_weight ? 3 : 2) * kProduct);
    EXPECT_EQ(program_.node(program_.value(both).producer).outputs.size(), trains_weight ? 6U : 5U);
  }
}

TEST_F(OpCost, ActivationsReadOnceForwardAndTwiceBackward) {
  const ValueId x = read("x", {kRows, kInputs}), dy = read("dy", {kRows, kInputs});
  constexpr double kBytes = 4.0 * kRows * kInputs;
  const Cost forward = cost(builder_.value(OpKind::kActivation, {x}, ActivationAttributes{}, "y"));
  EXPECT_EQ(forward.bytes_read, kBytes);
  EXPECT_EQ(forward.bytes_written, kBytes);
  const Cost backward = cost(builder_.value(OpKind::kActivationGrad, {dy, x}, ActivationAttributes{}, "dx"));
  EXPECT_EQ(backward.bytes_read, 2 * kBytes);
  EXPECT_EQ(backward.bytes_written, kBytes);
}

// Two products forward and five backward, of the pairs of query and key that the mask shows in a sequence of the
// greatest length; keys and values are read once, however many heads share them.
TEST_F(OpCost, AttentionCountsThePairsThatTheMaskShows) {
  constexpr int64_t kTokens = 8;
  const ValueId q = read("q", {kRows, 12}), k = read("k", {kRows, 6}), v = read("v", {kRows, 6});
  const ValueId context = read("context", {kRows, 12}), logsumexp = read("logsumexp", {4, kRows});
  const ValueId start = read("start", {4}, DType::kI32), step = read("step", {1}, DType::kI32);
  AttentionAttributes attributes;
  attributes.heads = 4;
  attributes.key_value_heads = 2;
  attributes.head_size = 3;
  attributes.max_query_length = attributes.max_key_length = kTokens;
  struct Pairs {
    AttentionMask mask;
    double seen;
  };
  for (const Pairs& pairs : {Pairs{AttentionMask::full(), 64}, Pairs{AttentionMask::causal(), 36},
                             Pairs{AttentionMask::sliding_window(2), 15}}) {
    attributes.mask = pairs.mask;
    const double of_a_product = 2.0 * 12 * pairs.seen * kRows / kTokens;
    const Cost forward =
        cost(builder_.value(OpKind::kAttention, {q, start, start, start, step, k, v}, attributes, "y"));
    EXPECT_EQ(forward.flops, 2 * of_a_product);
    EXPECT_EQ(forward.bytes_read, 4 * (kRows * (12 + 6 + 6) + 3 * 4 + 1));
    const Cost backward = cost(
        builder_.value(OpKind::kAttentionGrad,
                       {context, context, logsumexp, q, start, start, start, step, k, v}, attributes, "dq"));
    EXPECT_EQ(backward.flops, 5 * of_a_product);
    EXPECT_EQ(backward.bytes_written, 4 * kRows * (12 + 6 + 6));
    const Cost scores = cost(builder_.value(OpKind::kAttentionScores, {q, k, start, start}, attributes, "s"));
    EXPECT_EQ(scores.flops, of_a_product);
  }
}

// Products do many operations a byte, the other classes few: the order in which the guides list them.
TEST_F(OpCost, ClassesDifferInOperationsAByte) {
  constexpr int64_t kWide = 512;
  const ValueId x = read("x", {kWide, kWide}), w = read("w", {kWide, kWide});
  const ValueId gamma = read("gamma", {kWide}), beta = read("beta", {kWide});
  const auto intensity = [&](OpKind kind, std::vector<ValueId> inputs, Attributes attributes) {
    const Cost made = cost(builder_.value(kind, std::move(inputs), std::move(attributes), "y"));
    return made.flops / (made.bytes_read + made.bytes_written);
  };
  const double product = intensity(OpKind::kMatmul, {x, w}, MatmulAttributes{});
  const double norm = intensity(OpKind::kLayerNorm, {x, gamma, beta}, NormalizationAttributes{});
  const double add = intensity(OpKind::kAdd, {x, w}, {});
  EXPECT_GT(product, 10 * norm);
  EXPECT_GT(norm, add);
}

}  // namespace
}  // namespace shoehorn
