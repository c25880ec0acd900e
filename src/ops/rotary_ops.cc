// Rotary position embedding, after Su et al., "RoFormer" (2021), with pairs (i, i + P) of a head's columns as Hugging
// Face's rotate_half has them. N rows of tokens, P pairs, heads of D columns; columns behind the first 2·P of a head
// stay as they are (partial rotary).
//
//   rotary_table  cos and sin of position · frequency, in fp32; one for all layers
//   rotary        y[i] = x[i]·cos[i] - x[i + P]·sin[i],  y[i + P] = x[i + P]·cos[i] + x[i]·sin[i]
//   rms_norm_rotary   the norm of each head, and its turn: in fp32, rounded once
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

// rms_norm_rotary: (x[N, G·H], gamma[H], table f32[N, H]) -> y, rstd f32[N, G]: rotary(rms_norm(x)) of heads that turn as wholes
std::vector<TensorType> infer_rms_norm_rotary(const OpContext& context) {
  const TensorType statistic = expect_group_norm(context, 1);
  expect_dtype(context, 2, DType::kF32);
  expect_rank(context, 2, 2);
  if (!(context.type(2).shape[0] == context.type(0).shape[0])) fail_type(context, 2, "a row for each token");
  if (!(innermost(context.type(2)) == context.type(1).shape[0]) ||
      innermost(context.type(2)).maximum % 2 != 0)
    fail_type(context, 2, "of the columns of a head, an even number");
  return {context.type(0), statistic};
}

// rms_norm_rotary_grad: (dy, x, rstd, gamma, table, accumulator gamma?) -> dx, dgamma
std::vector<TensorType> infer_rms_norm_rotary_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  return {context.type(0), {DType::kF32, context.type(3).shape}};
}

void gradient_rms_norm_rotary(GradientContext& context) {
  const NodeId node = context.builder().add(
      OpKind::kRmsNormRotaryGrad,
      {context.gradient(0), context.input(0), context.output(1), context.input(1), context.input(2)},
      context.attributes<NormalizationAttributes>(), "rms_norm_rotary_gradient");
  for (int64_t i = 0; i < 2; ++i)
    context.set(i, context.builder().program().node(node).outputs[static_cast<size_t>(i)]);
}

// Heads of which every column turns, forward, all of the norm's.
bool turns_whole_heads(const Program& program, FusedChain::Nodes nodes) {
  const Node& norm = *nodes[0];
  const Node& turn = *nodes[1];
  const auto& heads = std::get<RotaryAttributes>(turn.attributes);
  const int64_t columns = innermost(program.type(norm.inputs[0])).maximum;
  return !heads.inverse && heads.first_column == 0 && heads.heads * heads.head_size == columns &&
         program.type(norm.inputs[1]).shape[0].maximum == heads.head_size &&
         innermost(program.type(turn.inputs[1])).maximum == heads.head_size;
}

std::vector<AliasRule> in_first(const OpContext&) {
  return {{0, 0, false}};
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
       .aliases = in_first,
       .gradient = gradient_rotary,
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 1}; }},
      {.kind = OpKind::kRmsNormRotary,
       .name = "rms_norm_rotary",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_rms_norm_rotary,
       .cost = [](const OpContext& context) { return streaming_cost(context, 7); },
       .aliases = in_first,
       .gradient = gradient_rms_norm_rotary,
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 2}; },
       .recompute = {repeat},
       .fuses = {{.pass = "fuse_norm_rotary",
                  .name = "rotated",
                  .links = {{OpKind::kRmsNorm}, {OpKind::kRotary}},
                  .inputs = {{0, 0}, {0, 1}, {1, 1}},
                  .attributes = attributes_of_link<0>,
                  .applies = turns_whole_heads}}},
      {.kind = OpKind::kRmsNormRotaryGrad,
       .name = "rms_norm_rotary_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 6,
       .infer = infer_rms_norm_rotary_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 13); },
       .aliases = in_first,
       .accumulators = {{1, 5}}},
  };
}

}  // namespace shoehorn
