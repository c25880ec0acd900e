#include "ops/op_definitions.h"

namespace shoehorn {

void expect_rank(const OpContext& context, int64_t input, int64_t rank) {
  if (context.type(input).shape.rank() != rank) fail_type(context, input, fmt::format("of rank {}", rank));
}

void expect_float(const OpContext& context, int64_t input) {
  if (!is_float(context.type(input).dtype)) fail_type(context, input, "of a floating-point type");
}

void expect_dtype(const OpContext& context, int64_t input, DType dtype) {
  if (context.type(input).dtype != dtype)
    fail_type(context, input, fmt::format("of type {}", dtype_name(dtype)));
}

void expect_optional_float32(const OpContext& context, int64_t input) {
  if (context.has(input)) expect_dtype(context, input, DType::kF32);
}

void expect_same_type(const OpContext& context, int64_t input, int64_t other) {
  if (!(context.type(input) == context.type(other)))
    fail_type(context, input, type_name(context.type(other)));
}

void expect_row_vector(const OpContext& context, int64_t input, int64_t of) {
  const TensorType& vector = context.type(input);
  const Dim& columns = innermost(context.type(of));
  if (vector.shape.rank() != 1 || vector.shape[0].maximum != columns.maximum) {
    fail_type(context, input, fmt::format("a vector of {} elements", columns.maximum));
  }
}

TensorType expect_group_norm(const OpContext& context, int64_t input) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_rank(context, input, 1);
  const Dim& rows = context.type(0).shape[0];
  const int64_t columns = innermost(context.type(0)).maximum;
  const int64_t hidden = context.type(input).shape[0].maximum;
  if (hidden < 1 || columns % hidden != 0)
    fail_type(context, input, fmt::format("a vector of {} elements, or of groups of them", columns));
  return {DType::kF32, hidden == columns ? Shape{rows} : Shape{rows, Dim(columns / hidden)}};
}

}  // namespace shoehorn
