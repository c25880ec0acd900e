// The loss scale of float16 training. Gradients are those of the scaled loss, so that small ones are not
// lost. Updates divide by the scale again, and are skipped if a gradient overflowed.
//
//   scale ──► reciprocal ──► unscale ──► clip_coefficient or the updates
//   sum of squares ──► found_inf ──► the updates' predicate, loss_scale_update
//
// The scale follows torch.amp.GradScaler: it shrinks after an overflow, and grows after growth_interval
// applied steps in a row. With a hysteresis of h, as in DeepSpeed's scaler, it shrinks at the h-th overflow
// since it last grew, and at each one after that.
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

std::vector<TensorType> infer_reciprocal(const OpContext& context) {
  expect_dtype(context, 0, DType::kF32);
  return {context.type(0)};
}

// found_inf: (sum of squares f64[1]) -> i32[1]: 1 if it is infinite or NaN, else 0. A sum of squares of fp32
// numbers never overflows a double, so it is finite if and only if each of them is.
std::vector<TensorType> infer_found_inf(const OpContext& context) {
  expect_dtype(context, 0, DType::kF64);
  return {{DType::kI32, {1}}};
}

// loss_scale_update: (scale f32[1], applied steps in a row i32[1], overflows to go i32[1], found_inf i32[1])
// -> the next versions of the first three
std::vector<TensorType> infer_loss_scale_update(const OpContext& context) {
  expect_dtype(context, 0, DType::kF32);
  for (int64_t i = 1; i < 4; ++i) expect_dtype(context, i, DType::kI32);
  return {context.type(0), context.type(1), context.type(2)};
}

std::vector<AliasRule> alias_states(const OpContext&) {
  return {{0, 0, true}, {1, 1, true}, {2, 2, true}};
}

OpInfo scalar_op(OpKind kind, std::string_view name, int64_t inputs,
                 std::vector<TensorType> (*infer)(const OpContext&)) {
  return {.kind = kind,
          .name = name,
          .op_class = OpClass::kUpdate,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .infer = infer,
          .cost = [](const OpContext& context) { return streaming_cost(context, 1); }};
}

}  // namespace

std::vector<OpInfo> loss_scale_ops() {
  OpInfo update = scalar_op(OpKind::kLossScaleUpdate, "loss_scale_update", 4, infer_loss_scale_update);
  update.aliases = alias_states;
  return {scalar_op(OpKind::kReciprocal, "reciprocal", 1, infer_reciprocal),
          scalar_op(OpKind::kFoundInf, "found_inf", 1, infer_found_inf), update};
}

}  // namespace shoehorn
