// What ranks that train alone for a while do at the end of it: see passes/local_sgd.h. A weight is fp32, or the halves of a
// split master (exec/cpu/elementwise/elementwise.h).
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

constexpr int64_t kStart = 0, kWeight = 1;

void expect_elements_of_start(const OpContext& context, int64_t input) {
  if (context.type(input).shape.elements() != context.type(kStart).shape.elements())
    fail_type(context, input, fmt::format("as large as {}", type_name(context.type(kStart))));
}

void expect_start_and_weight(const OpContext& context, int64_t rest) {
  expect_dtype(context, kStart, DType::kF32);
  expect_dtype(context, kWeight, context.has(rest) ? DType::kBF16 : DType::kF32);
  expect_elements_of_start(context, kWeight);
  if (!context.has(rest)) return;
  expect_dtype(context, rest, DType::kI16);
  expect_elements_of_start(context, rest);
}

// outer_start: (weight, rest i16?) -> the weight in f32
std::vector<TensorType> infer_outer_start(const OpContext& context) {
  expect_dtype(context, 0, context.has(1) ? DType::kBF16 : DType::kF32);
  if (context.has(1)) {
    expect_dtype(context, 1, DType::kI16);
    if (context.type(1).shape.elements() != context.type(0).shape.elements())
      fail_type(context, 1, fmt::format("as large as {}", type_name(context.type(0))));
  }
  return {{DType::kF32, context.type(0).shape}};
}

// outer_gradient: (start f32, weight, rest i16?) -> start - weight, f32
std::vector<TensorType> infer_outer_gradient(const OpContext& context) {
  expect_start_and_weight(context, 2);
  return {context.type(kStart)};
}

constexpr int64_t kSum = 2, kRest = 3, kMomentum = 4;

// outer_update: (start f32, weight, sum of outer gradients f32, rest i16?, momentum f32?) -> the next versions of all but the
// sum, those that are absent left out
std::vector<TensorType> infer_outer_update(const OpContext& context) {
  expect_start_and_weight(context, kRest);
  expect_dtype(context, kSum, DType::kF32);
  expect_elements_of_start(context, kSum);
  std::vector<TensorType> types = {context.type(kStart), context.type(kWeight)};
  if (context.has(kRest)) types.push_back(context.type(kRest));
  if (context.has(kMomentum)) {
    expect_dtype(context, kMomentum, DType::kF32);
    expect_elements_of_start(context, kMomentum);
    types.push_back(context.type(kMomentum));
  }
  return types;
}

std::vector<AliasRule> outer_update_aliases(const OpContext& context) {
  std::vector<AliasRule> rules;
  for (const int64_t input : {kStart, kWeight, kRest, kMomentum}) {
    if (context.has(input)) rules.push_back({static_cast<int64_t>(rules.size()), input, true});
  }
  return rules;
}

}  // namespace

std::vector<OpInfo> outer_update_ops() {
  return {{.kind = OpKind::kOuterStart,
           .name = "outer_start",
           .op_class = OpClass::kUpdate,
           .min_inputs = 1,
           .max_inputs = 2,
           .infer = infer_outer_start,
           .cost = [](const OpContext& context) { return streaming_cost(context, 0); }},
          {.kind = OpKind::kOuterGradient,
           .name = "outer_gradient",
           .op_class = OpClass::kUpdate,
           .min_inputs = 2,
           .max_inputs = 3,
           .infer = infer_outer_gradient,
           .cost = [](const OpContext& context) { return streaming_cost(context, 1); }},
          {.kind = OpKind::kOuterUpdate,
           .name = "outer_update",
           .op_class = OpClass::kUpdate,
           .min_inputs = 3,
           .max_inputs = 5,
           .infer = infer_outer_update,
           .cost = [](const OpContext& context) { return streaming_cost(context, 6); },
           .aliases = outer_update_aliases}};
}

}  // namespace shoehorn
