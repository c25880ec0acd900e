#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/losses/vocabulary_loss.h"

namespace shoehorn::cpu {

namespace {

VocabularyLossShape shape_of(const OpContext& node) {
  VocabularyLossShape shape{.dtype = node.type(0).dtype,
                            .tokens = node.type(0).shape[0].maximum,
                            .hidden = node.type(0).shape[1].maximum,
                            .vocabulary = node.type(1).shape[0].maximum,
                            .gives_loss = node.node.kind != OpKind::kLinearCrossEntropyGrad};
  if (const auto* trained = std::get_if<LinearLossGradAttributes>(&node.node.attributes)) {
    shape.gives_dx = trained->trains_input;
    shape.gives_dweight = trained->trains_weight;
  }
  return shape;
}

LossAttributes settings_of(const OpContext& node) {
  if (const auto* gradient = std::get_if<LinearLossGradAttributes>(&node.node.attributes))
    return gradient->loss;
  return node.attributes<LossAttributes>();
}

// All but the number of tokens.
VocabularyLossCall call_of(const OpContext& node, const NodeBuffers& buffers) {
  const VocabularyLossShape shape = shape_of(node);
  const LossAttributes settings = settings_of(node);
  VocabularyLossCall call{.label_smoothing = settings.label_smoothing,
                          .z_loss = settings.z_loss,
                          .x = buffers.inputs[0],
                          .weight = buffers.inputs[1],
                          .labels = input<const int32_t>(buffers, 2),
                          .target_count = input<const float>(buffers, 3),
                          .workspace = buffers.workspace};
  size_t gradient = 0;  // the first output that is one
  if (shape.gives_loss) {
    call.loss = output<float>(buffers, 0);
    call.row_maximum = output<float>(buffers, 1);
    call.row_sum = output<float>(buffers, 2);
    call.right = output<float>(buffers, 3);
    gradient = 4;
  } else {
    call.row_maximum = input<float>(buffers, 4);
    call.row_sum = input<float>(buffers, 5);
  }
  if (shape.gives_dx) call.dx = buffers.outputs[gradient];
  if (shape.gives_dweight) call.dweight = output<float>(buffers, gradient + 1);
  return call;
}

PreparedNode bind_call(const OpContext& node, VocabularyLossCall call) {
  const auto loss = std::make_shared<const VocabularyLoss>(shape_of(node));
  loss->compile();
  return [loss, call, tokens = rows(node.type(0))](const int64_t* counts) mutable {
    call.tokens = tokens(counts);
    loss->run(call);
  };
}

PreparedNode bind_loss(const OpContext& node, const NodeBuffers& buffers, int) {
  VocabularyLossCall call = call_of(node, buffers);
  call.accumulate_loss = node.has(4);
  return bind_call(node, call);
}

PreparedNode bind_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  VocabularyLossCall call = call_of(node, buffers);
  call.gradient_scale = input<const float>(buffers, 6);
  call.accumulate_dweight = node.has(7);
  return bind_call(node, call);
}

PreparedNode bind_with_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  VocabularyLossCall call = call_of(node, buffers);
  call.gradient_scale = input<const float>(buffers, 4);
  call.accumulate_loss = node.has(5);
  call.accumulate_dweight = node.has(6);
  return bind_call(node, call);
}

int64_t workspace_of(const OpContext& node, int) {
  return VocabularyLoss(shape_of(node)).workspace_bytes();
}

void compile(const OpContext& node) {
  VocabularyLoss(shape_of(node)).compile();
}

}  // namespace

std::vector<KernelEntry> vocabulary_loss_kernels() {
  return {{OpKind::kLinearCrossEntropy, workspace_of, bind_loss, compile},
          {OpKind::kLinearCrossEntropyGrad, workspace_of, bind_grad, compile},
          {OpKind::kLinearCrossEntropyWithGrad, workspace_of, bind_with_grad, compile}};
}

}  // namespace shoehorn::cpu
