// The loss of a language model without its logits: linear_cross_entropy is cross_entropy of logits = x · Wᵀ, with x[N, H]
// and W[V, H], whose N · V logits exist a part at a time.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"
#include "ops/weight_cast.h"

namespace shoehorn {

namespace {

void expect_linear_loss_inputs(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_rank(context, 1, 2);
  expect_dtype(context, 1, context.type(0).dtype);
  const Dim& hidden = context.type(0).shape[1];
  if (context.type(1).shape[1].maximum != hidden.maximum)
    fail_type(context, 1, fmt::format("a matrix with {} columns", hidden.maximum));
  expect_rank(context, 2, 1);
  expect_dtype(context, 2, DType::kI32);
  if (!(context.type(2).shape[0] == context.type(0).shape[0]))
    fail_type(context, 2, "one label for each row of the input");
  expect_dtype(context, 3, DType::kF32);
}

// Those of cross_entropy.
std::vector<TensorType> loss_types(const OpContext& context) {
  const TensorType scalar{DType::kF32, {1}};
  const TensorType statistic{DType::kF32, {context.type(0).shape[0]}};
  return {scalar, statistic, statistic, scalar};
}

// Of the input, without an element where it is not trained; of the weight where it is trained.
void append_gradient_types(const OpContext& context, std::vector<TensorType>& types) {
  const auto& attributes = context.attributes<LinearLossGradAttributes>();
  types.push_back(attributes.trains_input ? context.type(0)
                                          : TensorType{context.type(0).dtype, {0, context.type(0).shape[1]}});
  if (attributes.trains_weight) types.push_back({DType::kF32, context.type(1).shape});
}

// linear_cross_entropy: (x[N, H], W[V, H], labels i32[N] with -100 ignored, target_count f32[1], accumulator[1]?)
// -> loss, row maximum, row sum and number of right labels as cross_entropy
std::vector<TensorType> infer_linear_loss(const OpContext& context) {
  expect_linear_loss_inputs(context);
  return loss_types(context);
}

// linear_cross_entropy_grad: (x, W, labels, target_count, row maximum, row sum, gradient of the loss f32[1]?,
// accumulator of dW?) -> dx, of x's type; dW f32[V, H] if the weight is trained
std::vector<TensorType> infer_linear_loss_grad(const OpContext& context) {
  expect_linear_loss_inputs(context);
  for (const int64_t statistic : {4, 5}) {
    expect_rank(context, statistic, 1);
    expect_dtype(context, statistic, DType::kF32);
  }
  expect_optional_float32(context, 6);
  std::vector<TensorType> types;
  append_gradient_types(context, types);
  return types;
}

// linear_cross_entropy_with_grad: (x, W, labels, target_count, gradient of the loss f32[1]?, accumulator of the loss?,
// accumulator of dW?) -> the outputs of linear_cross_entropy, then those of linear_cross_entropy_grad
std::vector<TensorType> infer_linear_loss_with_grad(const OpContext& context) {
  expect_linear_loss_inputs(context);
  expect_optional_float32(context, 4);
  std::vector<TensorType> types = loss_types(context);
  append_gradient_types(context, types);
  return types;
}

void gradient_linear_loss(GradientContext& context) {
  const LinearLossGradAttributes attributes{context.attributes<LossAttributes>(), context.needed(0),
                                            context.needed(1)};
  std::vector<ValueId> inputs = {context.input(0), context.input(1),  context.input(2),
                                 context.input(3), context.output(1), context.output(2)};
  if (context.gradient(0).valid()) inputs.push_back(context.gradient(0));
  const NodeId made = context.builder().add(OpKind::kLinearCrossEntropyGrad, std::move(inputs), attributes,
                                            "vocabulary_loss_gradient");
  const std::vector<ValueId> gradients = context.builder().program().node(made).outputs;
  if (attributes.trains_input) context.set(0, gradients[0]);
  if (!attributes.trains_weight) return;
  const Program& program = context.builder().program();
  const ValueId weight = context.input(1);
  const bool is_parameter = program.value(weight).storage.valid() || is_weight_cast(program, weight);
  const DType dtype = program.type(weight).dtype;
  if (is_parameter || dtype == DType::kF32)
    context.set(1, gradients[1]);
  else
    context.set(1, context.builder().value(OpKind::kCast, {gradients[1]}, CastAttributes{dtype},
                                           "vocabulary_loss_gradient_cast"));
}

// Products of 2 · N · V · H flops each: the logits, and of each trained operand the gradient.
Cost cost_linear_loss(const OpContext& context) {
  int products = 1;
  if (const auto* trained = std::get_if<LinearLossGradAttributes>(&context.node.attributes))
    products += (trained->trains_input ? 1 : 0) + (trained->trains_weight ? 1 : 0);
  Cost cost = streaming_cost(context, 0);
  cost.flops = products * 2.0 * static_cast<double>(context.type(0).shape.elements()) *
               static_cast<double>(context.type(1).shape[0].maximum);
  return cost;
}

// A block of rows is copied before its gradients are written.
template <int64_t kOutput>
std::vector<AliasRule> over_the_input(const OpContext& context) {
  if (!context.attributes<LinearLossGradAttributes>().trains_input) return {};
  return {{kOutput, 0, false}};
}

// Only for a vocabulary whose logits are larger than what they are made of, and for the weight of a linear layer.
bool is_vocabulary(const Program& program, FusedChain::Nodes nodes) {
  const auto& product = std::get<MatmulAttributes>(nodes[0]->attributes);
  const Value& weight = program.value(nodes[0]->inputs[1]);
  const Shape& shape = weight.type.shape;
  return product.transpose_b && !product.transpose_a && weight.storage.valid() && !weight.producer.valid() &&
         shape[0].maximum > shape[1].maximum;
}

}  // namespace

std::vector<OpInfo> vocabulary_loss_ops() {
  return {
      {.kind = OpKind::kLinearCrossEntropy,
       .name = "linear_cross_entropy",
       .op_class = OpClass::kContraction,
       .min_inputs = 4,
       .max_inputs = 5,
       .infer = infer_linear_loss,
       .cost = cost_linear_loss,
       .gradient = gradient_linear_loss,
       .weight = WeightInput{1},
       .is_loss = true,
       .accumulators = {{0, 4}},
       .fuses = {{.pass = "fuse_vocabulary_loss",
                  .name = "vocabulary_loss",
                  .links = {{OpKind::kMatmul}, {OpKind::kCrossEntropy}},
                  .inputs = {{0, 0}, {0, 1}, {1, 1}, {1, 2}},
                  .attributes = attributes_of_link<1>,
                  .applies = is_vocabulary,
                  .outputs = 4}}},
      {.kind = OpKind::kLinearCrossEntropyGrad,
       .name = "linear_cross_entropy_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 6,
       .max_inputs = 8,
       .infer = infer_linear_loss_grad,
       .cost = cost_linear_loss,
       .aliases = over_the_input<0>,
       .accumulators = {{1, 7}}},
      {.kind = OpKind::kLinearCrossEntropyWithGrad,
       .name = "linear_cross_entropy_with_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 4,
       .max_inputs = 7,
       .infer = infer_linear_loss_with_grad,
       .cost = cost_linear_loss,
       .aliases = over_the_input<4>,
       .accumulators = {{0, 5}, {5, 6}}},
  };
}

}  // namespace shoehorn
