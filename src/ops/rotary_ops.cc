// Rotary position embedding, after Su et al., "RoFormer" (2021), with pairs (i, i + P) of a head's columns as Hugging
// Face's rotate_half has them. N rows of tokens, P pairs, heads of D columns; columns behind the first 2·P of a head
// stay as they are (partial rotary).
//
//   rotary_table  cos and sin of position · frequency, in fp32; one for all layers
//   rotary        y[i] = x[i]·cos[i] - x[i + P]·sin[i],  y[i + P] = x[i + P]·cos[i] + x[i]·sin[i]
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

// rotary_table: (positions i32[N]) -> f32[N, 2·P], the cosines and then the sines, times the attention factor
std::vector<TensorType> infer_rotary_table(const OpContext& context) {
  expect_dtype(context, 0, DType::kI32);
  expect_rank(context, 0, 1);
  const auto pairs = std::ssize(context.attributes<RotaryTableAttributes>().rotary.frequencies);
  return {{DType::kF32, {context.type(0).shape[0], Dim(2 * pairs)}}};
}

// rotary: (x[N, …], table f32[N, 2·P]) -> x with its heads turned
std::vector<TensorType> infer_rotary(const OpContext& context) {
  const auto& heads = context.attributes<RotaryAttributes>();
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_dtype(context, 1, DType::kF32);
  expect_rank(context, 1, 2);
  const int64_t behind = heads.first_column + heads.heads * heads.head_size;
  if (heads.first_column < 0 || heads.heads < 1 || behind > innermost(context.type(0)).maximum)
    fail_type(context, 0, fmt::format("wide enough for columns {} to {}", heads.first_column, behind));
  const int64_t turned = innermost(context.type(1)).maximum;
  if (!(context.type(1).shape[0] == context.type(0).shape[0])) fail_type(context, 1, "a row for each token");
  if (turned % 2 != 0 || turned > heads.head_size)
    fail_type(context, 1, fmt::format("of no more than the {} columns of a head", heads.head_size));
  return {context.type(0)};
}

// What is not of the heads is not touched where x becomes the output.
Cost cost_rotary(const OpContext& context) {
  const auto& heads = context.attributes<RotaryAttributes>();
  const double share = static_cast<double>(heads.heads * heads.head_size) /
                       static_cast<double>(innermost(context.type(0)).maximum);
  const double bytes = share * static_cast<double>(context.type(0).bytes());
  const double elements = share * static_cast<double>(context.type(0).shape.elements());
  return {3 * elements, bytes + static_cast<double>(context.type(1).bytes()), bytes};
}

// The inverse turn, with the same factor: the transpose of a matrix is linear in it.
void gradient_rotary(GradientContext& context) {
  auto attributes = context.attributes<RotaryAttributes>();
  attributes.inverse = !attributes.inverse;
  context.set(0, context.builder().value(OpKind::kRotary, {context.gradient(0), context.input(1)}, attributes,
                                         "rotary_gradient"));
}

}  // namespace

std::vector<OpInfo> rotary_ops() {
  return {
      {.kind = OpKind::kRotaryTable,
       .name = "rotary_table",
       .op_class = OpClass::kElementwise,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = infer_rotary_table,
       .cost = [](const OpContext& context) { return streaming_cost(context, 20); },
       .row_inputs = rows_of_first,
       .recompute = {repeat}},
      {.kind = OpKind::kRotary,
       .name = "rotary",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_rotary,
       .cost = cost_rotary,
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; },
       .gradient = gradient_rotary,
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 1}; }},
  };
}

}  // namespace shoehorn
