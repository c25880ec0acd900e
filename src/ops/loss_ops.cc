// Losses of S rows of logits: softmax and cross-entropy in one over C classes; squared error and binary
// cross-entropy for C values. Each is the sum divided by the number of targets in the whole effective batch,
// so the losses of micro-batches add.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

// The gradient of the loss itself where it is given: behind the inputs of the loss's gradient op.
void append_seed(const GradientContext& context, std::vector<ValueId>& inputs) {
  if (context.gradient(0).valid()) inputs.push_back(context.gradient(0));
}

// Of the gradient: behind that of the loss, which may be absent.
void append_weights(const GradientContext& context, int64_t from, size_t to, std::vector<ValueId>& inputs) {
  if (!context.input(from).valid()) return;
  inputs.resize(to);
  inputs.push_back(context.input(from));
}

// One for each class.
void expect_weights(const OpContext& context, int64_t input) {
  if (!context.has(input)) return;
  expect_dtype(context, input, DType::kF32);
  expect_rank(context, input, 1);
  if (!(context.type(input).shape[0] == context.type(0).shape[1]))
    fail_type(context, input, "one weight for each class");
}

void expect_class_inputs(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_rank(context, 1, 1);
  expect_dtype(context, 1, DType::kI32);
  if (!(context.type(1).shape[0] == context.type(0).shape[0]))
    fail_type(context, 1, "one label for each row of logits");
  expect_dtype(context, 2, DType::kF32);
}

// cross_entropy: (logits[S, C], labels i32[S] with -100 ignored, target_count f32[1], accumulator[1]?, weights of the
// classes f32[C]?)
// -> loss f32[1]; row maximum f32[S], row sum of exponentials f32[S]; number of rows whose label has the first of the
// largest logits f32[1]
std::vector<TensorType> infer_cross_entropy(const OpContext& context) {
  expect_class_inputs(context);
  expect_weights(context, 4);
  const TensorType statistic{DType::kF32, {context.type(0).shape[0]}};
  return {{DType::kF32, {1}}, statistic, statistic, {DType::kF32, {1}}};
}

// cross_entropy_grad: (logits, labels, target_count, row maximum, row sum, gradient of the loss f32[1]?, weights of the
// classes f32[C]?) -> dlogits
std::vector<TensorType> infer_cross_entropy_grad(const OpContext& context) {
  expect_class_inputs(context);
  expect_optional_float32(context, 5);
  expect_weights(context, 6);
  return {context.type(0)};
}

void gradient_cross_entropy(GradientContext& context) {
  std::vector<ValueId> inputs = {context.input(0), context.input(1), context.input(2), context.output(1),
                                 context.output(2)};
  append_seed(context, inputs);
  append_weights(context, 4, 6, inputs);
  context.set(0, context.builder().value(OpKind::kCrossEntropyGrad, std::move(inputs),
                                         context.attributes<LossAttributes>(), "loss_gradient"));
}

void expect_value_inputs(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_dtype(context, 1, DType::kF32);
  if (!(context.type(1).shape == context.type(0).shape)) fail_type(context, 1, "one value for each logit");
  expect_dtype(context, 2, DType::kF32);
}

// mean_squared_error, binary_cross_entropy: (logits[S, C], values f32[S, C], target_count f32[1], accumulator[1]?)
// -> loss f32[1]: the mean over the C values of a row, as PyTorch's `mean`; binary_cross_entropy with one more input,
// weights of the classes where their value is 1 f32[C]?
std::vector<TensorType> infer_value_loss(const OpContext& context) {
  expect_value_inputs(context);
  expect_weights(context, 4);
  return {{DType::kF32, {1}}};
}

// The same with _grad: (logits, values, target_count, gradient of the loss f32[1]?, weights f32[C]?) -> dlogits
std::vector<TensorType> infer_value_loss_grad(const OpContext& context) {
  expect_value_inputs(context);
  expect_optional_float32(context, 3);
  expect_weights(context, 4);
  return {context.type(0)};
}

template <OpKind kGradient>
void gradient_value_loss(GradientContext& context) {
  std::vector<ValueId> inputs = {context.input(0), context.input(1), context.input(2)};
  append_seed(context, inputs);
  append_weights(context, 4, 4, inputs);
  context.set(0, context.builder().value(kGradient, std::move(inputs), {}, "loss_gradient"));
}

template <int kFlops>
Cost loss_cost(const OpContext& context) {
  Cost cost = streaming_cost(context, 0);
  cost.flops = kFlops * static_cast<double>(context.type(0).shape.elements());
  return cost;
}

std::vector<AliasRule> over_the_logits(const OpContext&) {
  return {{0, 0, false}};
}

}  // namespace

std::vector<OpInfo> loss_ops() {
  return {
      {.kind = OpKind::kCrossEntropy,
       .name = "cross_entropy",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 5,
       .infer = infer_cross_entropy,
       .cost = loss_cost<6>,
       .gradient = gradient_cross_entropy,
       .is_loss = true,
       .accumulators = {{0, 3}}},
      {.kind = OpKind::kCrossEntropyGrad,
       .name = "cross_entropy_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 7,
       .infer = infer_cross_entropy_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 7); },
       .aliases = over_the_logits},
      {.kind = OpKind::kMeanSquaredError,
       .name = "mean_squared_error",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 4,
       .infer = infer_value_loss,
       .cost = loss_cost<3>,
       .gradient = gradient_value_loss<OpKind::kMeanSquaredErrorGrad>,
       .is_loss = true,
       .accumulators = {{0, 3}}},
      {.kind = OpKind::kMeanSquaredErrorGrad,
       .name = "mean_squared_error_grad",
       .op_class = OpClass::kElementwise,
       .min_inputs = 3,
       .max_inputs = 4,
       .infer = infer_value_loss_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 2); },
       .aliases = over_the_logits},
      {.kind = OpKind::kBinaryCrossEntropy,
       .name = "binary_cross_entropy",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 5,
       .infer = infer_value_loss,
       .cost = loss_cost<6>,
       .gradient = gradient_value_loss<OpKind::kBinaryCrossEntropyGrad>,
       .is_loss = true,
       .accumulators = {{0, 3}}},
      {.kind = OpKind::kBinaryCrossEntropyGrad,
       .name = "binary_cross_entropy_grad",
       .op_class = OpClass::kElementwise,
       .min_inputs = 3,
       .max_inputs = 5,
       .infer = infer_value_loss_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 6); },
       .aliases = over_the_logits},
  };
}

}  // namespace shoehorn
