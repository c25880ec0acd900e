// Ops on a range of columns, which join a low-rank product with a wider fused one (passes/lora.h), and the
// constant factor of such a product. R rows, N columns, W columns in the range.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

void check_range(const OpContext& context, const ColumnsAttributes& range) {
  const int64_t columns = innermost(context.type(0)).maximum;
  if (range.offset < 0 || range.width < 1 || range.offset + range.width > columns) {
    fail_type(context, 0,
              fmt::format("wide enough for columns {} to {}", range.offset, range.offset + range.width));
  }
}

// add_columns: (x[R, N], addend[R, W]) -> x with the addend added to the range
std::vector<TensorType> infer_add_columns(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  const auto& range = context.attributes<ColumnsAttributes>();
  check_range(context, range);
  const TensorType addend{context.type(0).dtype, {context.type(0).shape[0], Dim(range.width)}};
  if (!(context.type(1) == addend)) fail_type(context, 1, type_name(addend));
  return {context.type(0)};
}

void gradient_add_columns(GradientContext& context) {
  context.set(0, context.gradient(0));
  if (!context.needed(1)) return;
  context.set(1, context.builder().value(OpKind::kTakeColumns, {context.gradient(0)},
                                         context.attributes<ColumnsAttributes>(), "columns_gradient"));
}

// take_columns: (x[R, N]) -> [R, W], a copy of the range; its gradient is spread_columns
std::vector<TensorType> infer_take_columns(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  const auto& range = context.attributes<ColumnsAttributes>();
  check_range(context, range);
  return {{context.type(0).dtype, {context.type(0).shape[0], Dim(range.width)}}};
}

// spread_columns: (x[R, W]) -> [R, N], zero beside the range; its gradient is take_columns
std::vector<TensorType> infer_spread_columns(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  const auto& range = context.attributes<ColumnsAttributes>();
  if (innermost(context.type(0)).maximum != range.width || range.offset < 0 ||
      range.offset + range.width > range.columns) {
    fail_type(context, 0,
              fmt::format("{} columns for {} to {} of {}", range.width, range.offset,
                          range.offset + range.width, range.columns));
  }
  return {{context.type(0).dtype, {context.type(0).shape[0], Dim(range.columns)}}};
}

template <OpKind kGradient>
void gradient_of_columns(GradientContext& context) {
  auto range = context.attributes<ColumnsAttributes>();
  range.columns = innermost(context.type(context.input(0))).maximum;
  context.set(0, context.builder().value(kGradient, {context.gradient(0)}, range, "columns_gradient"));
}

// scale: (x) -> factor · x
void gradient_scale(GradientContext& context) {
  context.set(0, context.builder().value(OpKind::kScale, {context.gradient(0)},
                                         context.attributes<ScaleAttributes>(), "scale_gradient"));
}

}  // namespace

std::vector<OpInfo> column_ops() {
  const auto in_place = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; };
  return {
      {.kind = OpKind::kAddColumns,
       .name = "add_columns",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_add_columns,
       // What is not of the range is not touched where x becomes the output.
       .cost =
           [](const OpContext& context) {
             const auto bytes = static_cast<double>(context.type(1).bytes());
             return Cost{static_cast<double>(context.type(1).shape.elements()), 2 * bytes, bytes};
           },
       .aliases = in_place,
       .gradient = gradient_add_columns},
      {.kind = OpKind::kTakeColumns,
       .name = "take_columns",
       .op_class = OpClass::kMovement,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = infer_take_columns,
       .cost =
           [](const OpContext& context) {
             const auto bytes = static_cast<double>(context.output_type(0).bytes());
             return Cost{0, bytes, bytes};
           },
       .gradient = gradient_of_columns<OpKind::kSpreadColumns>,
       .row_inputs = rows_of_first},
      {.kind = OpKind::kSpreadColumns,
       .name = "spread_columns",
       .op_class = OpClass::kMovement,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = infer_spread_columns,
       .cost = [](const OpContext& context) { return streaming_cost(context, 0); },
       .gradient = gradient_of_columns<OpKind::kTakeColumns>,
       .row_inputs = rows_of_first},
      {.kind = OpKind::kScale,
       .name = "scale",
       .op_class = OpClass::kElementwise,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer =
           [](const OpContext& context) {
             expect_float(context, 0);
             return std::vector<TensorType>{context.type(0)};
           },
       .cost = [](const OpContext& context) { return streaming_cost(context, 1); },
       .aliases = in_place,
       .gradient = gradient_scale,
       .row_inputs = rows_of_first},
  };
}

}  // namespace shoehorn
