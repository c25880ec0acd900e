#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/products/matmul.h"

namespace shoehorn::cpu {

namespace {

struct Description {
  MatmulShape shape;
  RuntimeDim count;
};

Description describe(const OpContext& node) {
  const auto& attributes = node.attributes<MatmulAttributes>();
  const Shape& a = node.type(0).shape;
  const Dim& m = a[attributes.transpose_a ? 1 : 0];
  const Dim& k = a[attributes.transpose_a ? 0 : 1];
  const Dim& n = node.output_type(0).shape[1];
  CHECK(!n.count.valid(), "the columns of a product have a run-time count");
  MatmulShape shape{.m = m.maximum,
                    .n = n.maximum,
                    .k = k.maximum,
                    .transpose_a = attributes.transpose_a,
                    .transpose_b = attributes.transpose_b,
                    .operands = node.type(0).dtype,
                    .result = node.output_type(0).dtype,
                    .bias = node.has(2),
                    .accumulate = node.has(3) || node.has(4)};
  const Dim& dynamic = m.count.valid() ? m : k;
  if (!dynamic.count.valid()) return {shape, {}};
  shape.dynamic = m.count.valid() ? DynamicDimension::kM : DynamicDimension::kK;
  shape.count_multiple = node.program.counts()[dynamic.count.at()].multiple;
  return {shape, RuntimeDim(dynamic)};
}

// Where C does not lie in the addend's bytes, it begins as a copy.
void begin_with(const std::byte* addend, int64_t bytes, std::byte* c) {
  if (addend != nullptr && addend != c) copy(addend, bytes, c);
}

PreparedNode bind_matmul(const OpContext& node, const NodeBuffers& buffers, int) {
  const Description description = describe(node);
  const std::byte* addend = input<const std::byte>(buffers, 4);
  const int64_t row_bytes = row_elements(node.output_type(0)) * dtype_bytes(node.output_type(0).dtype);
  return [matmul = prepare_matmul(description.shape), count = description.count, a = buffers.inputs[0],
          b = buffers.inputs[1], bias = node.has(2) ? input<const float>(buffers, 2) : nullptr,
          c = buffers.outputs[0], workspace = buffers.workspace, addend, row_bytes,
          rows = rows(node.output_type(0))](const int64_t* counts) {
    begin_with(addend, rows(counts) * row_bytes, c);
    matmul->run(count(counts), a, b, bias, c, workspace);
  };
}

}  // namespace

std::vector<KernelEntry> matmul_kernels() {
  return {{OpKind::kMatmul,
           [](const OpContext& node, int) { return plan_matmul(describe(node).shape)->workspace_bytes(); },
           bind_matmul, [](const OpContext& node) { prepare_matmul(describe(node).shape); }}};
}

}  // namespace shoehorn::cpu
