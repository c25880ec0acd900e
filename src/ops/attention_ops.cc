// Attention over packed sequences. N tokens, S sequences, A heads, D head size, H = A·D, T longest sequence.
//
// Sequences are given by start[S] and length[S] (rows of the packed tokens) and sample[S] (index in the
// effective batch, for the dropout of the probabilities). The unfused chain stores [A, N, T] in fp32; the
// fused op (fused_ops.cc) never does.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

TensorType probabilities_type(const OpContext& context, const TensorType& tokens) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  return {DType::kF32, {Dim(attributes.heads), tokens.shape[0], Dim(attributes.max_sequence_length)}};
}

void expect_heads(const OpContext& context, int64_t input) {
  expect_rank(context, input, 2);
  const int64_t heads = context.attributes<AttentionAttributes>().heads;
  if (heads < 1 || innermost(context.type(input)).maximum % heads != 0) {
    fail_type(context, input, fmt::format("divisible into {} heads", heads));
  }
}

// attention_scores: (q[N, H], k[N, H], start, length) -> f32[A, N, T], scaled; keys beyond a sequence are
// -inf
std::vector<TensorType> infer_scores(const OpContext& context) {
  expect_heads(context, 0);
  expect_same_type(context, 1, 0);
  return {probabilities_type(context, context.type(0))};
}

// attention_scores_grad: (dscores, q, k, start, length) -> dq, dk
void gradient_scores(GradientContext& context) {
  const NodeId node = context.builder().add(
      OpKind::kAttentionScoresGrad,
      {context.gradient(0), context.input(0), context.input(1), context.input(2), context.input(3)},
      context.attributes<AttentionAttributes>(), "attention_scores_gradient");
  for (int64_t i = 0; i < 2; ++i)
    context.set(i, context.builder().program().node(node).outputs[static_cast<size_t>(i)]);
}

// attention_softmax: (scores, start, length, sample, step) -> dropped probabilities, probabilities
std::vector<TensorType> infer_softmax(const OpContext& context) {
  expect_rank(context, 0, 3);
  return {context.type(0), context.type(0)};
}

// attention_softmax_grad: (ddropped, probabilities, start, length, sample, step) -> dscores
void gradient_softmax(GradientContext& context) {
  context.set(
      0, context.builder().value(OpKind::kAttentionSoftmaxGrad,
                                 {context.gradient(0), context.output(1), context.input(1), context.input(2),
                                  context.input(3), context.input(4)},
                                 context.attributes<AttentionAttributes>(), "attention_softmax_gradient"));
}

// attention_context: (probabilities, v[N, H], start, length) -> [N, H]
std::vector<TensorType> infer_context(const OpContext& context) {
  expect_heads(context, 1);
  if (!(context.type(0) == probabilities_type(context, context.type(1)))) {
    fail_type(context, 0, type_name(probabilities_type(context, context.type(1))));
  }
  return {context.type(1)};
}

// attention_context_grad: (dcontext, probabilities, v, start, length) -> dprobabilities, dv
void gradient_context(GradientContext& context) {
  const NodeId node = context.builder().add(
      OpKind::kAttentionContextGrad,
      {context.gradient(0), context.input(0), context.input(1), context.input(2), context.input(3)},
      context.attributes<AttentionAttributes>(), "attention_context_gradient");
  for (int64_t i = 0; i < 2; ++i)
    context.set(i, context.builder().program().node(node).outputs[static_cast<size_t>(i)]);
}

double product_flops(const OpContext& context, const TensorType& tokens) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  return 2.0 * static_cast<double>(attributes.max_sequence_length) *
         static_cast<double>(tokens.shape.elements());
}

}  // namespace

std::vector<OpInfo> attention_ops() {
  return {
      {.kind = OpKind::kAttentionScores,
       .name = "attention_scores",
       .op_class = OpClass::kContraction,
       .min_inputs = 4,
       .max_inputs = 4,
       .infer = infer_scores,
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = product_flops(context, context.type(0));
             return cost;
           },
       .gradient = gradient_scores,
       .makes_infinities = true},  // scores of masked keys
      {.kind = OpKind::kAttentionScoresGrad,
       .name = "attention_scores_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 5,
       .max_inputs = 5,
       .infer =
           [](const OpContext& context) { return std::vector<TensorType>{context.type(1), context.type(2)}; },
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = 2 * product_flops(context, context.type(1));
             return cost;
           }},
      {.kind = OpKind::kAttentionSoftmax,
       .name = "attention_softmax",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 5,
       .infer = infer_softmax,
       .cost = [](const OpContext& context) { return streaming_cost(context, 8); },
       .gradient = gradient_softmax},
      {.kind = OpKind::kAttentionSoftmaxGrad,
       .name = "attention_softmax_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 6,
       .max_inputs = 6,
       .infer = [](const OpContext& context) { return std::vector<TensorType>{context.type(0)}; },
       .cost = [](const OpContext& context) { return streaming_cost(context, 5); }},
      {.kind = OpKind::kAttentionContext,
       .name = "attention_context",
       .op_class = OpClass::kContraction,
       .min_inputs = 4,
       .max_inputs = 4,
       .infer = infer_context,
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = product_flops(context, context.type(1));
             return cost;
           },
       .gradient = gradient_context},
      {.kind = OpKind::kAttentionContextGrad,
       .name = "attention_context_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 5,
       .max_inputs = 5,
       .infer =
           [](const OpContext& context) { return std::vector<TensorType>{context.type(1), context.type(2)}; },
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = 2 * product_flops(context, context.type(2));
             return cost;
           }},
  };
}

}  // namespace shoehorn
