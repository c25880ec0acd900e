// Root-mean-square normalization, alone and with the turn of heads that follows it. N rows of tokens, G groups of H
// columns, each normalized by itself as the norms of a query's heads are; a table of cosines and sines (rotary_ops.cc).
//
//   rms_norm          y = x / √(mean(x²) + epsilon) · gamma
//   rms_norm_rotary   rotary(rms_norm(x)) of heads of H columns that turn as wholes: in fp32, rounded once
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

// rms_norm:        (x[N, G·H], gamma[H]) -> y, rstd f32[N, G]
// rms_norm_rotary: (x, gamma, table f32[N, H]) -> the same
std::vector<TensorType> infer_rms_norm(const OpContext& context) {
  const TensorType statistic = expect_group_norm(context, 1);
  if (context.has(2)) {
    expect_dtype(context, 2, DType::kF32);
    expect_rank(context, 2, 2);
    const TensorType& table = context.type(2);
    if (!(table.shape[0] == context.type(0).shape[0])) fail_type(context, 2, "a row for each token");
    if (!(innermost(table) == context.type(1).shape[0]) || innermost(table).maximum % 2 != 0)
      fail_type(context, 2, "of the columns of a head, an even number");
  }
  return {context.type(0), statistic};
}

// rms_norm_grad:        (dy, x, rstd, gamma, accumulator gamma?) -> dx, dgamma
// rms_norm_rotary_grad: (dy, x, rstd, gamma, table, accumulator gamma?) -> the same
std::vector<TensorType> infer_rms_norm_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  return {context.type(0), {DType::kF32, context.type(3).shape}};
}

void gradient_rms_norm(GradientContext& context) {
  std::vector<ValueId> inputs = {context.gradient(0), context.input(0), context.output(1), context.input(1)};
  const ValueId table = context.input(2);
  if (table.valid()) inputs.push_back(table);
  context.set_all(context.builder().add(table.valid() ? OpKind::kRmsNormRotaryGrad : OpKind::kRmsNormGrad,
                                        std::move(inputs), context.attributes<NormalizationAttributes>(),
                                        table.valid() ? "rms_norm_rotary_gradient" : "rms_norm_gradient"),
                  {0, 1});
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

std::vector<OpInfo> rms_norm_ops() {
  return {
      {.kind = OpKind::kRmsNorm,
       .name = "rms_norm",
       .op_class = OpClass::kNormalization,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_rms_norm,
       .cost = [](const OpContext& context) { return streaming_cost(context, 4); },
       .aliases = in_first,
       .gradient = gradient_rms_norm,
       .row_inputs = rows_of_first,
       .recompute = {repeat}},
      {.kind = OpKind::kRmsNormGrad,
       .name = "rms_norm_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 4,
       .max_inputs = 5,
       .infer = infer_rms_norm_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 10); },
       .aliases = in_first,
       .accumulators = {{1, 4}}},
      {.kind = OpKind::kRmsNormRotary,
       .name = "rms_norm_rotary",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_rms_norm,
       .cost = [](const OpContext& context) { return streaming_cost(context, 7); },
       .aliases = in_first,
       .gradient = gradient_rms_norm,
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
       .infer = infer_rms_norm_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 13); },
       .aliases = in_first,
       .accumulators = {{1, 5}}},
  };
}

}  // namespace shoehorn
