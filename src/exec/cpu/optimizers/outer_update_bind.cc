#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/optimizers/outer_update.h"

namespace shoehorn::cpu {

namespace {

// Of a weight at one input, whose rest is another one, or absent.
WeightView weight_at(const OpContext& node, const NodeBuffers& buffers, size_t weight, size_t rest) {
  if (!node.has(static_cast<int64_t>(rest))) return {.value = input<float>(buffers, weight)};
  return {.value = nullptr, .high = input<bfloat16>(buffers, weight), .rest = input<int16_t>(buffers, rest)};
}

PreparedNode bind_outer_start(const OpContext& node, const NodeBuffers& buffers, int) {
  const OuterTensor tensor{.count = node.type(0).shape.elements(),
                           .weight = weight_at(node, buffers, 0, 1),
                           .start = output<float>(buffers, 0)};
  return [tensor](const int64_t*) { outer_start(tensor); };
}

// Inputs in the order of ops/outer_update_ops.cc.
OuterTensor outer_tensor(const OpContext& node, const NodeBuffers& buffers, size_t rest) {
  return {.count = node.type(0).shape.elements(),
          .weight = weight_at(node, buffers, 1, rest),
          .start = input<float>(buffers, 0)};
}

PreparedNode bind_outer_gradient(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensor = outer_tensor(node, buffers, 2), gradient = output<float>(buffers, 0)](const int64_t*) {
    outer_gradient(tensor, gradient);
  };
}

PreparedNode bind_outer_update(const OpContext& node, const NodeBuffers& buffers, int) {
  constexpr size_t kSum = 2, kRest = 3, kMomentum = 4;
  OuterTensor tensor = outer_tensor(node, buffers, kRest);
  if (node.has(kMomentum)) tensor.momentum = input<float>(buffers, kMomentum);
  return [tensor, sum = input<const float>(buffers, kSum),
          attributes = node.attributes<OuterUpdateAttributes>()](const int64_t*) {
    outer_update(tensor, sum, attributes);
  };
}

}  // namespace

std::vector<KernelEntry> outer_update_kernels() {
  return {{OpKind::kOuterStart, nullptr, bind_outer_start},
          {OpKind::kOuterGradient, nullptr, bind_outer_gradient},
          {OpKind::kOuterUpdate, nullptr, bind_outer_update}};
}

}  // namespace shoehorn::cpu
