#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/optimizer_kernels.h"
#include "exec/cpu/reduction.h"
#include "ops/update_layout.h"

namespace shoehorn::cpu {

namespace {

std::vector<TensorView> views(const OpContext& node, const std::vector<std::byte*>& pointers) {
  std::vector<TensorView> list;
  for (size_t i = 0; i < node.node.inputs.size(); ++i) {
    const TensorType& type = node.type(static_cast<int64_t>(i));
    list.push_back({type.dtype, type.shape.elements(), pointers.empty() ? nullptr : pointers[i]});
  }
  return list;
}

PreparedNode bind_sum_of_squares(const OpContext& node, const NodeBuffers& buffers, int) {
  return [list = views(node, buffers.inputs), total = output<double>(buffers, 0),
          workspace = buffers.workspace](const int64_t*) { sum_of_squares(list, total, workspace); };
}

PreparedNode bind_clip(const OpContext& node, const NodeBuffers& buffers, int) {
  return [squares = input<const double>(buffers, 0), max_norm = node.attributes<ClipAttributes>().max_norm,
          coefficient = output<float>(buffers, 0), norm = output<float>(buffers, 1)](const int64_t*) {
    clip_coefficient(squares, max_norm, norm, coefficient);
  };
}

UpdateScalars bind_scalars(const NodeBuffers& buffers) {
  return {.learning_rate = input<const float>(buffers, 0),
          .gradient_scale = input<const float>(buffers, 2),
          .skip = nullptr};
}

// The pointers of tensor t, in the order of the update's layout.
struct TensorBuffers {
  const OpContext& node;
  const NodeBuffers& buffers;
  UpdateLayout layout;
  bool split;

  int64_t tensors() const {
    return (static_cast<int64_t>(node.node.inputs.size()) - layout.shared_inputs) / layout.inputs_per_tensor;
  }
  size_t at(int64_t tensor, int64_t i) const {
    return static_cast<size_t>(layout.shared_inputs + tensor * layout.inputs_per_tensor + i);
  }
  int64_t count(int64_t tensor) const {
    return node.type(static_cast<int64_t>(at(tensor, 0))).shape.elements();
  }
  WeightView weight(int64_t tensor) const {
    if (!split) return {.value = input<float>(buffers, at(tensor, 0))};
    return {.value = nullptr,
            .high = input<bfloat16>(buffers, at(tensor, 0)),
            .rest = input<int16_t>(buffers, at(tensor, 1))};
  }
  const void* gradient(int64_t tensor) const { return buffers.inputs[at(tensor, layout.gradient_input)]; }
  // The i-th optimizer state.
  float* state(int64_t tensor, int64_t i) const {
    return input<float>(buffers, at(tensor, layout.gradient_input + 1 + i));
  }
};

PreparedNode bind_adamw(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& attributes = node.attributes<AdamWAttributes>();
  const TensorBuffers source{node, buffers, update_layout(node.node), attributes.split_master};
  std::vector<AdamWTensor> tensors;
  for (int64_t t = 0; t < source.tensors(); ++t) {
    tensors.push_back({.count = source.count(t),
                       .weight = source.weight(t),
                       .gradient_dtype = DType::kF32,
                       .gradient = source.gradient(t),
                       .m = source.state(t, 0),
                       .v = source.state(t, 1),
                       .weight_decay = attributes.weight_decay[static_cast<size_t>(t)]});
  }
  const AdamWConstants constants{attributes.beta1, attributes.beta2, attributes.epsilon};
  return [tensors = std::move(tensors), constants, scalars = bind_scalars(buffers),
          applied = input<const uint32_t>(buffers, 1)](const int64_t*) {
    adamw_update(tensors, constants, scalars, applied);
  };
}

PreparedNode bind_sgd(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& attributes = node.attributes<SgdAttributes>();
  const TensorBuffers source{node, buffers, update_layout(node.node), attributes.split_master};
  std::vector<SgdTensor> tensors;
  for (int64_t t = 0; t < source.tensors(); ++t) {
    tensors.push_back({.count = source.count(t),
                       .weight = source.weight(t),
                       .gradient_dtype = DType::kF32,
                       .gradient = source.gradient(t),
                       .momentum_buffer = attributes.momentum != 0 ? source.state(t, 0) : nullptr,
                       .weight_decay = attributes.weight_decay[static_cast<size_t>(t)]});
  }
  return [tensors = std::move(tensors), constants = SgdConstants{attributes.momentum, attributes.nesterov},
          scalars = bind_scalars(buffers)](const int64_t*) { sgd_update(tensors, constants, scalars); };
}

}  // namespace

std::vector<KernelEntry> update_kernels() {
  return {
      {OpKind::kSumOfSquares,
       [](const OpContext& node, int) { return sum_of_squares_workspace_bytes(views(node, {})); },
       bind_sum_of_squares},
      {OpKind::kClipCoefficient, nullptr, bind_clip},
      {OpKind::kAdamW, nullptr, bind_adamw},
      {OpKind::kSgd, nullptr, bind_sgd},
  };
}

}  // namespace shoehorn::cpu
