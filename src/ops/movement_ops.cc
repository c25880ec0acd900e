// Ops that move data: views, casts, copies, rows gathered and scattered, and the numbers of rows to gather.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

std::vector<TensorType> infer_view(const OpContext& context) {
  const auto& view = context.attributes<ViewAttributes>();
  const int64_t end = view.offset_elements + view.type.shape.elements();
  if (view.type.dtype != context.type(0).dtype || view.offset_elements < 0 ||
      end > context.type(0).shape.elements()) {
    fail_type(context, 0,
              fmt::format("large enough for a window of {} at element {}", type_name(view.type),
                          view.offset_elements));
  }
  return {view.type};
}

void gradient_view(GradientContext& context) {
  const TensorType& source = context.type(context.input(0));
  if (source.shape.elements() != context.type(context.output(0)).shape.elements()) {
    throw user_error(
        "[view] expected a view of the whole tensor where a gradient is needed, got a part of {}",
        type_name(source));
  }
  context.set(0, context.builder().value(OpKind::kView, {context.gradient(0)}, ViewAttributes{source, 0},
                                         "view_gradient"));
}

std::vector<TensorType> infer_cast(const OpContext& context) {
  expect_float(context, 0);
  return {{context.attributes<CastAttributes>().to, context.type(0).shape}};
}

void gradient_cast(GradientContext& context) {
  // A product makes the gradient of a cast weight in the weight's own type.
  if (context.type(context.gradient(0)).dtype == context.type(context.input(0)).dtype) {
    context.set(0, context.gradient(0));
    return;
  }
  context.set(0,
              context.builder().value(OpKind::kCast, {context.gradient(0)},
                                      CastAttributes{context.type(context.input(0)).dtype}, "cast_gradient"));
}

// gather_rows: (x[R, H], index i32[S]) -> [S, H], or numbers of rows: (x i32[R], index) -> [S]
std::vector<TensorType> infer_gather(const OpContext& context) {
  expect_rank(context, 1, 1);
  expect_dtype(context, 1, DType::kI32);
  const TensorType& x = context.type(0);
  const Dim& selected = context.type(1).shape[0];
  if (x.dtype == DType::kI32 && x.shape.rank() == 1) return {{x.dtype, {selected}}};
  expect_rank(context, 0, 2);
  return {{x.dtype, {selected, x.shape[1]}}};
}

void gradient_gather(GradientContext& context) {
  context.set(0, context.builder().value(OpKind::kScatterRows, {context.gradient(0), context.input(1)},
                                         ScatterAttributes{context.type(context.input(0)).shape[0]},
                                         "gather_gradient"));
}

std::vector<TensorType> infer_scatter(const OpContext& context) {
  expect_rank(context, 0, 2);
  expect_rank(context, 1, 1);
  expect_dtype(context, 1, DType::kI32);
  return {{context.type(0).dtype, {context.attributes<ScatterAttributes>().rows, context.type(0).shape[1]}}};
}

void gradient_scatter(GradientContext& context) {
  context.set(0, context.builder().value(OpKind::kGatherRows, {context.gradient(0), context.input(1)}, {},
                                         "scatter_gradient"));
}

// last_rows: (start i32[S], length i32[S]) -> i32[S], the last row of each sequence; with ids i32[N] its last row that has
// not the padding's id, and the first where all have
std::vector<TensorType> infer_last_rows(const OpContext& context) {
  expect_dtype(context, 0, DType::kI32);
  expect_rank(context, 0, 1);
  expect_same_type(context, 1, 0);
  if (context.has(2)) {
    expect_dtype(context, 2, DType::kI32);
    expect_rank(context, 2, 1);
  }
  return {context.type(0)};
}

}  // namespace

std::vector<OpInfo> movement_ops() {
  const auto stream = [](const OpContext& context) { return streaming_cost(context, 0); };
  return {
      {.kind = OpKind::kView,
       .name = "view",
       .op_class = OpClass::kMovement,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = infer_view,
       .cost = [](const OpContext&) { return Cost{}; },
       .aliases =
           [](const OpContext& context) {
             return std::vector<AliasRule>{
                 {0, 0, true, context.attributes<ViewAttributes>().offset_elements}};
           },
       .gradient = gradient_view},
      {.kind = OpKind::kCast,
       .name = "cast",
       .op_class = OpClass::kMovement,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = infer_cast,
       .cost = stream,
       .gradient = gradient_cast},
      {.kind = OpKind::kCopy,
       .name = "copy",
       .op_class = OpClass::kMovement,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = [](const OpContext& context) { return std::vector<TensorType>{context.type(0)}; },
       .cost = stream,
       .gradient = [](GradientContext& context) { context.set(0, context.gradient(0)); }},
      {.kind = OpKind::kGatherRows,
       .name = "gather_rows",
       .op_class = OpClass::kMovement,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_gather,
       .cost =
           [](const OpContext& context) {
             const auto bytes = static_cast<double>(context.output_type(0).bytes());
             return Cost{0, bytes, bytes};
           },
       .gradient = gradient_gather},
      {.kind = OpKind::kScatterRows,
       .name = "scatter_rows",
       .op_class = OpClass::kMovement,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_scatter,
       .cost = stream,
       .gradient = gradient_scatter},
      {.kind = OpKind::kLastRows,
       .name = "last_rows",
       .op_class = OpClass::kMovement,
       .min_inputs = 2,
       .max_inputs = 3,
       .infer = infer_last_rows,
       .cost = stream},
  };
}

}  // namespace shoehorn
