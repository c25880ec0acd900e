// What `fuse` puts in the place of chains of the ops above. Each has a backward of its own.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

void set_all(GradientContext& context, NodeId node, std::initializer_list<int64_t> inputs) {
  size_t output = 0;
  for (const int64_t input : inputs)
    context.set(input, context.builder().program().node(node).outputs[output++]);
}

// bias_activation: (x[rows, N], bias[N]) -> y
std::vector<TensorType> infer_bias_activation(const OpContext& context) {
  expect_float(context, 0);
  expect_row_vector(context, 1, 0);
  return {context.type(0)};
}

// bias_activation_grad: (dy, x, bias, accumulator bias?) -> dx, dbias
std::vector<TensorType> infer_bias_activation_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  return {context.type(0), {DType::kF32, context.type(2).shape}};
}

void gradient_bias_activation(GradientContext& context) {
  set_all(context,
          context.builder().add(OpKind::kBiasActivationGrad,
                                {context.gradient(0), context.input(0), context.input(1)},
                                context.attributes<ActivationAttributes>(), "bias_activation_gradient"),
          {0, 1});
}

// bias_dropout_residual_layer_norm:
//   (x, bias, residual, gamma, beta, then with dropout: step, sample, position) -> y, z, mean, rstd
// z = dropout(x + bias) + residual; y = layer_norm(z)
std::vector<TensorType> infer_residual_norm(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_same_type(context, 2, 0);
  for (const int64_t vector : {1, 3, 4}) expect_row_vector(context, vector, 0);
  const TensorType statistic{DType::kF32, {context.type(0).shape[0]}};
  return {context.type(0), context.type(0), statistic, statistic};
}

// ..._grad: (dy, z, mean, rstd, gamma, step?, sample?, position?, accumulators of bias, gamma, beta?)
//           -> dresidual, dx, dbias, dgamma, dbeta
std::vector<TensorType> infer_residual_norm_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  const TensorType parameter{DType::kF32, context.type(4).shape};
  return {context.type(0), context.type(0), parameter, parameter, parameter};
}

void gradient_residual_norm(GradientContext& context) {
  set_all(context,
          context.builder().add(OpKind::kBiasDropoutResidualLayerNormGrad,
                                {context.gradient(0), context.output(1), context.output(2), context.output(3),
                                 context.input(3), context.input(5), context.input(6), context.input(7)},
                                context.attributes<NormalizationAttributes>(), "residual_norm_gradient"),
          {2, 0, 1, 3, 4});
}

ValueId make_residual_norm_again(OpBuilder& builder, const Node& node) {
  return builder.value(OpKind::kLayerNormOutput,
                       {node.outputs[1], node.outputs[2], node.outputs[3], node.inputs[3], node.inputs[4]},
                       {}, "residual_norm.again");
}

// attention: (qkv[N, 3H], start[S], length[S], sample[S], step) -> context[N, H], logsumexp f32[A, N]
std::vector<TensorType> infer_attention(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  const int64_t width = context.type(0).shape[1].maximum;
  if (width % (3 * attributes.heads) != 0)
    fail_type(context, 0, fmt::format("three times {} heads wide", attributes.heads));
  for (int64_t i = 1; i < 4; ++i) expect_dtype(context, i, DType::kI32);
  const Dim tokens = context.type(0).shape[0];
  return {{context.type(0).dtype, {tokens, Dim(width / 3)}}, {DType::kF32, {Dim(attributes.heads), tokens}}};
}

// attention_grad: (dcontext, qkv, context, logsumexp, start, length, sample, step) -> dqkv
void gradient_attention(GradientContext& context) {
  context.set(
      0, context.builder().value(OpKind::kAttentionGrad,
                                 {context.gradient(0), context.input(0), context.output(0), context.output(1),
                                  context.input(1), context.input(2), context.input(3), context.input(4)},
                                 context.attributes<AttentionAttributes>(), "attention_gradient"));
}

Cost attention_cost(const OpContext& context, double products) {
  Cost cost = streaming_cost(context, 0);
  const auto& attributes = context.attributes<AttentionAttributes>();
  cost.flops = products * 2.0 * static_cast<double>(attributes.max_sequence_length) *
               static_cast<double>(context.type(0).shape.elements());
  return cost;
}

}  // namespace

std::vector<OpInfo> fused_ops() {
  return {
      {.kind = OpKind::kBiasActivation,
       .name = "bias_activation",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_bias_activation,
       .cost = [](const OpContext& context) { return streaming_cost(context, 9); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; },
       .gradient = gradient_bias_activation,
       .make_again = {repeat}},
      {.kind = OpKind::kBiasActivationGrad,
       .name = "bias_activation_grad",
       .op_class = OpClass::kElementwise,
       .min_inputs = 3,
       .max_inputs = 4,
       .infer = infer_bias_activation_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 14); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; },
       .accumulators = {{1, 3}}},
      {.kind = OpKind::kBiasDropoutResidualLayerNorm,
       .name = "bias_dropout_residual_layer_norm",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 8,
       .infer = infer_residual_norm,
       .cost = [](const OpContext& context) { return streaming_cost(context, 12); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{1, 0, false}, {1, 2, false}}; },
       .gradient = gradient_residual_norm,
       .make_again = {make_residual_norm_again}},
      {.kind = OpKind::kBiasDropoutResidualLayerNormGrad,
       .name = "bias_dropout_residual_layer_norm_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 11,
       .infer = infer_residual_norm_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 18); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; },
       .accumulators = {{2, 8}, {3, 9}, {4, 10}}},
      {.kind = OpKind::kAttention,
       .name = "attention",
       .op_class = OpClass::kContraction,
       .min_inputs = 5,
       .max_inputs = 5,
       .infer = infer_attention,
       .cost = [](const OpContext& context) { return attention_cost(context, 2.0 / 3.0); },
       .gradient = gradient_attention},
      {.kind = OpKind::kAttentionGrad,
       .name = "attention_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 8,
       .max_inputs = 8,
       .infer = [](const OpContext& context) { return std::vector<TensorType>{context.type(1)}; },
       .cost = [](const OpContext& context) { return attention_cost(context, 5); }},
  };
}

}  // namespace shoehorn
