// Matrix products: C[M, N] = op(A) · op(B) (+ bias[N]) (+ accumulator or addend), op transposing where asked.
// Inputs: (A, B, bias?, accumulator?, addend[M, N]?). Products in the operands' type with fp32 accumulation. An addend is an
// activation, and goes with products of few terms only (ops/added_product.h).
#include "ops/added_product.h"
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"
#include "ops/weight_cast.h"

namespace shoehorn {

namespace {

Dim rows(const TensorType& type, bool transposed) {
  return type.shape[transposed ? 1 : 0];
}
Dim columns(const TensorType& type, bool transposed) {
  return type.shape[transposed ? 0 : 1];
}

std::vector<TensorType> infer_matmul(const OpContext& context) {
  const auto& attributes = context.attributes<MatmulAttributes>();
  for (int64_t i = 0; i < 2; ++i) {
    expect_float(context, i);
    expect_rank(context, i, 2);
  }
  expect_dtype(context, 1, context.type(0).dtype);
  const Dim inner = columns(context.type(0), attributes.transpose_a);
  if (rows(context.type(1), attributes.transpose_b).maximum != inner.maximum) {
    fail_type(context, 1, fmt::format("a matrix whose inner dimension is {}", inner.maximum));
  }
  TensorType output{
      attributes.output,
      {rows(context.type(0), attributes.transpose_a), columns(context.type(1), attributes.transpose_b)}};
  if (context.has(2) &&
      (context.type(2).shape.rank() != 1 || context.type(2).shape[0].maximum != output.shape[1].maximum)) {
    fail_type(context, 2, fmt::format("a bias of {} elements", output.shape[1].maximum));
  }
  if (!context.has(4)) return {output};
  if (!takes_addend(context)) fail_type(context, 0, "operands of a product of few terms, beside an addend");
  if (!(context.type(4) == output)) fail_type(context, 4, type_name(output));
  return {output};
}

Cost cost_matmul(const OpContext& context) {
  const Dim inner = columns(context.type(0), context.attributes<MatmulAttributes>().transpose_a);
  return streaming_cost(context, 2.0 * static_cast<double>(inner.maximum));
}

// With C = op(A)·op(B): dop(A) = dC·op(B)ᵀ and dop(B) = op(A)ᵀ·dC, each transposed if its operand was. A
// parameter's gradient is fp32; an activation's has the activation's type.
void gradient_matmul(GradientContext& context) {
  const auto attributes = context.attributes<MatmulAttributes>();
  const bool ta = attributes.transpose_a;
  const bool tb = attributes.transpose_b;
  ValueId dc = context.gradient(0);
  if (context.needed(4)) context.set(4, dc);
  if (context.needed(2))
    context.set(2, context.builder().value(OpKind::kColumnSum, {dc}, {}, "bias_gradient"));
  const DType operands = context.type(context.input(0)).dtype;
  if (context.type(dc).dtype != operands) {
    dc = context.builder().value(OpKind::kCast, {dc}, CastAttributes{operands}, "product_gradient_cast");
  }
  const auto gradient_type = [&](int64_t input) {
    const Program& program = context.builder().program();
    const ValueId operand = context.input(input);
    const bool is_parameter = program.value(operand).storage.valid() || is_weight_cast(program, operand);
    return is_parameter ? DType::kF32 : program.type(operand).dtype;
  };
  const auto product = [&](ValueId a, bool transpose_a, ValueId b, bool transpose_b, DType type,
                           const char* name) {
    return context.builder().value(OpKind::kMatmul, {a, b}, MatmulAttributes{transpose_a, transpose_b, type},
                                   name);
  };
  // The second gradient first: it may be the last that reads op(A), whose memory the first one can then have.
  if (context.needed(1)) {
    context.set(1, tb ? product(dc, true, context.input(0), ta, gradient_type(1), "matmul_gradient_b")
                      : product(context.input(0), !ta, dc, false, gradient_type(1), "matmul_gradient_b"));
  }
  if (context.needed(0)) {
    context.set(0, ta ? product(context.input(1), tb, dc, true, gradient_type(0), "matmul_gradient_a")
                      : product(dc, false, context.input(1), !tb, gradient_type(0), "matmul_gradient_a"));
  }
}

}  // namespace

bool takes_addend(const OpContext& product) {
  const auto& attributes = product.attributes<MatmulAttributes>();
  const Dim terms = columns(product.type(0), attributes.transpose_a);
  const Dim made = columns(product.type(1), attributes.transpose_b);
  return !attributes.transpose_a && attributes.output == product.type(0).dtype && !product.has(2) &&
         !product.has(3) && !terms.count.valid() && has_few_terms(terms.maximum, made.maximum);
}

std::vector<OpInfo> matmul_ops() {
  return {{.kind = OpKind::kMatmul,
           .name = "matmul",
           .op_class = OpClass::kContraction,
           .min_inputs = 2,
           .max_inputs = 5,
           .infer = infer_matmul,
           .cost = cost_matmul,
           .aliases =
               [](const OpContext& context) {
                 const auto& inputs = context.node.inputs;
                 // B is read again and again while C is written.
                 const bool may_lie_there = context.has(4) && inputs[4] != inputs[1];
                 return may_lie_there ? std::vector<AliasRule>{{0, 4, false}} : std::vector<AliasRule>{};
               },
           .gradient = gradient_matmul,
           .row_inputs =
               [](const OpContext& context) {
                 const auto rows = context.has(4) ? std::vector<int64_t>{0, 4} : std::vector<int64_t>{0};
                 return context.attributes<MatmulAttributes>().transpose_a ? std::vector<int64_t>{} : rows;
               },
           .weight = WeightInput{1},
           .set_output = set_output_of<MatmulAttributes>,
           .accumulators = {{0, 3}},
           .fuses = {{.pass = "fuse_bias",
                      .name = "linear",
                      .links = {{OpKind::kMatmul}, {OpKind::kBiasAdd}},
                      .inputs = {{0, 0}, {0, 1}, {1, 1}},
                      .attributes = attributes_of_link<0>}}}};
}

}  // namespace shoehorn
