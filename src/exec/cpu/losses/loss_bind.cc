#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/losses/loss.h"

namespace shoehorn::cpu {

namespace {

PreparedNode bind_cross_entropy(const OpContext& node, const NodeBuffers& buffers, int) {
  CrossEntropyForward call{.dtype = node.type(0).dtype,
                           .rows = 0,
                           .classes = row_elements(node.type(0)),
                           .label_smoothing = node.attributes<LossAttributes>().label_smoothing,
                           .z_loss = node.attributes<LossAttributes>().z_loss,
                           .logits = buffers.inputs[0],
                           .labels = input<const int32_t>(buffers, 1),
                           .target_count = input<const float>(buffers, 2),
                           .class_weights = input<const float>(buffers, 4),
                           .row_maximum = output<float>(buffers, 1),
                           .row_sum = output<float>(buffers, 2),
                           .loss = output<float>(buffers, 0),
                           .right = output<float>(buffers, 3),
                           .accumulate = node.has(3),
                           .workspace = buffers.workspace};
  return run_by_rows<cross_entropy_forward>(call, rows(node.type(0)));
}

PreparedNode bind_cross_entropy_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  CrossEntropyBackward call{.dtype = node.type(0).dtype,
                            .rows = 0,
                            .classes = row_elements(node.type(0)),
                            .label_smoothing = node.attributes<LossAttributes>().label_smoothing,
                            .z_loss = node.attributes<LossAttributes>().z_loss,
                            .logits = buffers.inputs[0],
                            .labels = input<const int32_t>(buffers, 1),
                            .target_count = input<const float>(buffers, 2),
                            .row_maximum = input<const float>(buffers, 3),
                            .row_sum = input<const float>(buffers, 4),
                            .gradient_scale = input<const float>(buffers, 5),
                            .class_weights = input<const float>(buffers, 6),
                            .dlogits = buffers.outputs[0]};
  return run_by_rows<cross_entropy_backward>(call, rows(node.type(0)));
}

template <void (*kForward)(const ValueLossForward&)>
PreparedNode bind_value_loss(const OpContext& node, const NodeBuffers& buffers, int) {
  ValueLossForward call{.dtype = node.type(0).dtype,
                        .rows = 0,
                        .columns = row_elements(node.type(0)),
                        .logits = buffers.inputs[0],
                        .values = input<const float>(buffers, 1),
                        .target_count = input<const float>(buffers, 2),
                        .positive_weights = input<const float>(buffers, 4),
                        .loss = output<float>(buffers, 0),
                        .accumulate = node.has(3),
                        .workspace = buffers.workspace};
  return run_by_rows<kForward>(call, rows(node.type(0)));
}

template <void (*kBackward)(const ValueLossBackward&)>
PreparedNode bind_value_loss_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  ValueLossBackward call{.dtype = node.type(0).dtype,
                         .rows = 0,
                         .columns = row_elements(node.type(0)),
                         .logits = buffers.inputs[0],
                         .values = input<const float>(buffers, 1),
                         .target_count = input<const float>(buffers, 2),
                         .gradient_scale = input<const float>(buffers, 3),
                         .positive_weights = input<const float>(buffers, 4),
                         .dlogits = buffers.outputs[0]};
  return run_by_rows<kBackward>(call, rows(node.type(0)));
}

int64_t loss_workspace(const OpContext& node, int) {
  return loss_workspace_bytes(node.type(0).shape[0].maximum);
}

}  // namespace

std::vector<KernelEntry> loss_kernels() {
  return {
      {OpKind::kCrossEntropy, loss_workspace, bind_cross_entropy},
      {OpKind::kCrossEntropyGrad, nullptr, bind_cross_entropy_grad},
      {OpKind::kMeanSquaredError, loss_workspace, bind_value_loss<mean_squared_error_forward>},
      {OpKind::kMeanSquaredErrorGrad, nullptr, bind_value_loss_grad<mean_squared_error_backward>},
      {OpKind::kBinaryCrossEntropy, loss_workspace, bind_value_loss<binary_cross_entropy_forward>},
      {OpKind::kBinaryCrossEntropyGrad, nullptr, bind_value_loss_grad<binary_cross_entropy_backward>},
  };
}

}  // namespace shoehorn::cpu
