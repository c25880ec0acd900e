// What `fuse` puts in the place of chains of row-wise ops. Each has a backward of its own.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

// Output 0 may take the bytes of dy, or of the gradient at input `kOther` if there is one.
template <int64_t kOther>
std::vector<AliasRule> in_gradients(const OpContext& context) {
  std::vector<AliasRule> rules = {{0, 0, false}};
  if (context.has(kOther)) rules.push_back({0, kOther, false});
  return rules;
}

// gated_activation: (gate, up) -> activation(gate) · up
std::vector<TensorType> infer_gated_activation(const OpContext& context) {
  expect_float(context, 0);
  expect_same_type(context, 1, 0);
  return {context.type(0)};
}

// gated_activation_grad: (dy, gate, up) -> dgate, dup
std::vector<TensorType> infer_gated_activation_grad(const OpContext& context) {
  for (const int64_t i : {1, 2}) expect_same_type(context, i, 0);
  return {context.type(0), context.type(0)};
}

void gradient_gated_activation(GradientContext& context) {
  context.set_all(context.builder().add(
                      OpKind::kGatedActivationGrad, {context.gradient(0), context.input(0), context.input(1)},
                      context.attributes<ActivationAttributes>(), "gated_activation_gradient"),
                  {0, 1});
}

// The gate's activation may be either factor.
FusedChain gated_chain(int64_t gate) {
  return {.pass = "fuse_gated_activation",
          .name = "gated_activation",
          .links = {{OpKind::kActivation}, {OpKind::kMultiply, false, gate}},
          .inputs = {{0, 0}, {1, 1 - gate}},
          .attributes = attributes_of_link<0>};
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
  context.set_all(context.builder().add(
                      OpKind::kBiasActivationGrad, {context.gradient(0), context.input(0), context.input(1)},
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

// ..._grad: (dy, z, mean, rstd, gamma, step?, sample?, position?, dz?, accumulators of bias, gamma, beta?)
//           -> dresidual, dx, dbias, dgamma, dbeta. dz: of what else reads z.
std::vector<TensorType> infer_residual_norm_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  if (context.has(8)) expect_same_type(context, 8, 0);
  const TensorType parameter{DType::kF32, context.type(4).shape};
  return {context.type(0), context.type(0), parameter, parameter, parameter};
}

// Where the loss depends on the sum alone.
void gradient_of_sum(GradientContext& context) {
  const Dropout& dropout = context.attributes<NormalizationAttributes>().dropout;
  ValueId dx = context.gradient(1);
  context.set(2, dx);
  if (dropout.p > 0) {
    dx = context.builder().value(OpKind::kDropout, {dx, context.input(5), context.input(6), context.input(7)},
                                 DropoutAttributes{dropout}, "dropout_gradient");
  }
  context.set(0, dx);
  if (context.needed(1))
    context.set(1, context.builder().value(OpKind::kColumnSum, {dx}, {}, "bias_gradient"));
}

void gradient_residual_norm(GradientContext& context) {
  if (!context.gradient(0).valid()) {
    gradient_of_sum(context);
    return;
  }
  std::vector<ValueId> inputs = {context.gradient(0), context.output(1), context.output(2), context.output(3),
                                 context.input(3),    context.input(5),  context.input(6),  context.input(7)};
  if (context.gradient(1).valid()) inputs.push_back(context.gradient(1));
  context.set_all(
      context.builder().add(OpKind::kBiasDropoutResidualLayerNormGrad, std::move(inputs),
                            context.attributes<NormalizationAttributes>(), "residual_norm_gradient"),
      {2, 0, 1, 3, 4});
}

// The norm's, with the dropout's where there is one.
Attributes attributes_of_residual_norm(FusedChain::Nodes nodes) {
  auto attributes = std::get<NormalizationAttributes>(nodes[3]->attributes);
  if (nodes[1] != nullptr) attributes.dropout = std::get<DropoutAttributes>(nodes[1]->attributes).dropout;
  return attributes;
}

// The branch may be either term.
FusedChain residual_norm_chain(int64_t branch) {
  return {.pass = "fuse_residual_norm",
          .name = "residual_norm",
          .links = {{OpKind::kBiasAdd},
                    {OpKind::kDropout, true},
                    {.kind = OpKind::kAdd, .input = branch, .becomes = 1},
                    {OpKind::kLayerNorm}},
          .inputs = {{0, 0}, {0, 1}, {2, 1 - branch}, {3, 1}, {3, 2}, {1, 1}, {1, 2}, {1, 3}},
          .attributes = attributes_of_residual_norm};
}

// residual_rms_norm: (x[rows, G·H], residual, gamma[H]) -> y, z, rstd f32[rows, G]
// z = x + residual; y = rms_norm(z)
std::vector<TensorType> infer_residual_rms_norm(const OpContext& context) {
  const TensorType statistic = expect_group_norm(context, 2);
  expect_same_type(context, 1, 0);
  return {context.type(0), context.type(0), statistic};
}

// ..._grad: (dy, z, rstd, gamma, dz?, accumulator gamma?) -> dx, which is the residual's too, dgamma
std::vector<TensorType> infer_residual_rms_norm_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  if (context.has(4)) expect_same_type(context, 4, 0);
  return {context.type(0), {DType::kF32, context.type(3).shape}};
}

void gradient_residual_rms_norm(GradientContext& context) {
  ValueId dx = context.gradient(1);
  if (context.gradient(0).valid()) {
    std::vector<ValueId> inputs = {context.gradient(0), context.output(1), context.output(2),
                                   context.input(2)};
    if (dx.valid()) inputs.push_back(dx);
    const NodeId node =
        context.builder().add(OpKind::kResidualRmsNormGrad, std::move(inputs),
                              context.attributes<NormalizationAttributes>(), "residual_norm_gradient");
    const std::vector<ValueId>& made = context.builder().program().node(node).outputs;
    dx = made[0];
    context.set(2, made[1]);
  }
  context.set(0, dx);
  context.set(1, dx);
}

ValueId make_residual_rms_norm_again(OpBuilder& builder, const Node& node) {
  return builder.value(OpKind::kRmsNorm, {node.outputs[1], node.inputs[2]}, node.attributes,
                       "residual_norm.again");
}

ValueId make_residual_norm_again(OpBuilder& builder, const Node& node) {
  return builder.value(OpKind::kLayerNormOutput,
                       {node.outputs[1], node.outputs[2], node.outputs[3], node.inputs[3], node.inputs[4]},
                       {}, "residual_norm.again");
}

}  // namespace

std::vector<OpInfo> fused_ops() {
  return {
      {.kind = OpKind::kGatedActivation,
       .name = "gated_activation",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_gated_activation,
       .cost = [](const OpContext& context) { return streaming_cost(context, 9); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}, {0, 1, false}}; },
       .gradient = gradient_gated_activation,
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 1}; },
       .recompute = {repeat},
       .fuses = {gated_chain(0), gated_chain(1)}},
      {.kind = OpKind::kGatedActivationGrad,
       .name = "gated_activation_grad",
       .op_class = OpClass::kElementwise,
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_gated_activation_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 16); },
       .aliases =
           [](const OpContext&) {
             return std::vector<AliasRule>{{0, 0, false}, {0, 1, false}, {1, 1, false}, {1, 2, false}};
           }},
      {.kind = OpKind::kBiasActivation,
       .name = "bias_activation",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_bias_activation,
       .cost = [](const OpContext& context) { return streaming_cost(context, 9); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; },
       .gradient = gradient_bias_activation,
       .recompute = {repeat},
       .fuses = {{.pass = "fuse_bias_activation",
                  .name = "bias_activation",
                  .links = {{OpKind::kBiasAdd}, {OpKind::kActivation}},
                  .inputs = {{0, 0}, {0, 1}},
                  .attributes = attributes_of_link<1>}}},
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
       .recompute = {make_residual_norm_again},
       .fuses = {residual_norm_chain(0), residual_norm_chain(1)}},
      {.kind = OpKind::kBiasDropoutResidualLayerNormGrad,
       .name = "bias_dropout_residual_layer_norm_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 12,
       .infer = infer_residual_norm_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 18); },
       .aliases = in_gradients<8>,
       .accumulators = {{2, 9}, {3, 10}, {4, 11}}},
      {.kind = OpKind::kResidualRmsNorm,
       .name = "residual_rms_norm",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_residual_rms_norm,
       .cost = [](const OpContext& context) { return streaming_cost(context, 5); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{1, 0, false}, {1, 1, false}}; },
       .gradient = gradient_residual_rms_norm,
       .recompute = {make_residual_rms_norm_again},
       .fuses = {{.pass = "fuse_residual_norm",
                  .name = "residual_norm",
                  .links = {{.kind = OpKind::kAdd, .becomes = 1}, {OpKind::kRmsNorm}},
                  .inputs = {{0, 0}, {0, 1}, {1, 1}},
                  .attributes = attributes_of_link<1>}}},
      {.kind = OpKind::kResidualRmsNormGrad,
       .name = "residual_rms_norm_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 4,
       .max_inputs = 6,
       .infer = infer_residual_rms_norm_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 11); },
       .aliases = in_gradients<4>,
       .accumulators = {{1, 5}}},
  };
}

}  // namespace shoehorn
