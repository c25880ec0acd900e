// The loss: softmax and cross-entropy in one, over C classes.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

void expect_loss_inputs(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_rank(context, 1, 1);
  expect_dtype(context, 1, DType::kI32);
  if (!(context.type(1).shape[0] == context.type(0).shape[0]))
    fail_type(context, 1, "one label for each row of logits");
  expect_dtype(context, 2, DType::kF32);
}

// cross_entropy: (logits[S, C], labels i32[S] with -100 ignored, target_count f32[1], accumulator[1]?)
// -> loss f32[1]: the sum of the losses over the number of targets in the whole effective batch;
//    row maximum f32[S], row sum of exponentials f32[S]
std::vector<TensorType> infer_cross_entropy(const OpContext& context) {
  expect_loss_inputs(context);
  const TensorType statistic{DType::kF32, {context.type(0).shape[0]}};
  return {{DType::kF32, {1}}, statistic, statistic};
}

// cross_entropy_grad: (logits, labels, target_count, row maximum, row sum, loss scale f32[1]?) -> dlogits
std::vector<TensorType> infer_cross_entropy_grad(const OpContext& context) {
  expect_loss_inputs(context);
  if (context.has(5)) expect_dtype(context, 5, DType::kF32);
  return {context.type(0)};
}

// The loss is the root of the backward: the gradient of its output is one.
void gradient_cross_entropy(GradientContext& context) {
  context.set(0, context.builder().value(OpKind::kCrossEntropyGrad,
                                         {context.input(0), context.input(1), context.input(2),
                                          context.output(1), context.output(2)},
                                         context.attributes<LossAttributes>(), "loss_gradient"));
}

}  // namespace

std::vector<OpInfo> loss_ops() {
  return {
      {.kind = OpKind::kCrossEntropy,
       .name = "cross_entropy",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 4,
       .infer = infer_cross_entropy,
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = 6 * static_cast<double>(context.type(0).shape.elements());
             return cost;
           },
       .gradient = gradient_cross_entropy,
       .accumulators = {{0, 3}}},
      {.kind = OpKind::kCrossEntropyGrad,
       .name = "cross_entropy_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 6,
       .infer = infer_cross_entropy_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 7); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; }},
  };
}

}  // namespace shoehorn
