#include "exec/cpu/elementwise/activation.h"
#include "exec/cpu/elementwise/embedding.h"
#include "exec/cpu/elementwise/embedding_noise.h"
#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/norms/normalization.h"
#include "exec/cpu/norms/rms_norm.h"
#include "exec/cpu/optimizers/reduction.h"

namespace shoehorn::cpu {

namespace {

cpu::Activation kind_of(shoehorn::Activation activation) {
  switch (activation) {
    case shoehorn::Activation::kGelu:
      return cpu::Activation::kGelu;
    case shoehorn::Activation::kGeluTanh:
      return cpu::Activation::kGeluTanh;
    case shoehorn::Activation::kRelu:
      return cpu::Activation::kRelu;
    case shoehorn::Activation::kSilu:
      return cpu::Activation::kSilu;
    case shoehorn::Activation::kTanh:
      return cpu::Activation::kTanh;
  }
  throw InternalError("[activation] unknown kind");
}

// A node of one type whose call lacks only the number of elements.
template <auto kKernel, typename Call>
PreparedNode run_by_elements(Call call, const TensorType& type) {
  return [call, rows = rows(type), width = row_elements(type)](const int64_t* counts) mutable {
    call.count = rows(counts) * width;
    kKernel(call);
  };
}

PreparedNode bind_add(const OpContext& node, const NodeBuffers& buffers, int) {
  const Add call{.dtype = node.type(0).dtype,
                 .count = 0,
                 .a = buffers.inputs[0],
                 .b = buffers.inputs[1],
                 .sum = buffers.outputs[0]};
  return run_by_elements<add>(call, node.type(0));
}

PreparedNode bind_multiply(const OpContext& node, const NodeBuffers& buffers, int) {
  const Multiply call{.dtype = node.type(0).dtype,
                      .count = 0,
                      .a = buffers.inputs[0],
                      .b = buffers.inputs[1],
                      .product = buffers.outputs[0]};
  return run_by_elements<multiply>(call, node.type(0));
}

PreparedNode bind_gated_activation(const OpContext& node, const NodeBuffers& buffers, int) {
  const GatedActivationForward call{.dtype = node.type(0).dtype,
                                    .kind = kind_of(node.attributes<ActivationAttributes>().kind),
                                    .count = 0,
                                    .gate = buffers.inputs[0],
                                    .up = buffers.inputs[1],
                                    .y = buffers.outputs[0]};
  return run_by_elements<gated_activation_forward>(call, node.type(0));
}

PreparedNode bind_gated_activation_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  const GatedActivationBackward call{.dtype = node.type(0).dtype,
                                     .kind = kind_of(node.attributes<ActivationAttributes>().kind),
                                     .count = 0,
                                     .dy = buffers.inputs[0],
                                     .gate = buffers.inputs[1],
                                     .up = buffers.inputs[2],
                                     .dgate = buffers.outputs[0],
                                     .dup = buffers.outputs[1]};
  return run_by_elements<gated_activation_backward>(call, node.type(0));
}

PreparedNode bind_bias_add(const OpContext& node, const NodeBuffers& buffers, int) {
  BiasAdd call{.dtype = node.type(0).dtype,
               .rows = 0,
               .columns = row_elements(node.type(0)),
               .x = buffers.inputs[0],
               .bias = input<const float>(buffers, 1),
               .y = buffers.outputs[0]};
  return run_by_rows<bias_add>(call, rows(node.type(0)));
}

PreparedNode bind_column_sum(const OpContext& node, const NodeBuffers& buffers, int) {
  ColumnSum call{.dtype = node.type(0).dtype,
                 .rows = 0,
                 .columns = row_elements(node.type(0)),
                 .x = buffers.inputs[0],
                 .sum = output<float>(buffers, 0),
                 .accumulate = node.has(1),
                 .workspace = buffers.workspace};
  return run_by_rows<column_sum>(call, rows(node.type(0)));
}

PreparedNode bind_activation(const OpContext& node, const NodeBuffers& buffers, int) {
  BiasActivationForward call{.dtype = node.type(0).dtype,
                             .kind = kind_of(node.attributes<ActivationAttributes>().kind),
                             .rows = 0,
                             .features = row_elements(node.type(0)),
                             .x = buffers.inputs[0],
                             .bias = node.has(1) ? input<const float>(buffers, 1) : nullptr,
                             .y = buffers.outputs[0]};
  return run_by_rows<bias_activation_forward>(call, rows(node.type(0)));
}

// activation_grad (dy, x) and bias_activation_grad (dy, x, bias, accumulator?).
PreparedNode bind_activation_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  const bool biased = node.has(2);
  BiasActivationBackward call{.dtype = node.type(0).dtype,
                              .kind = kind_of(node.attributes<ActivationAttributes>().kind),
                              .rows = 0,
                              .features = row_elements(node.type(0)),
                              .dy = buffers.inputs[0],
                              .x = buffers.inputs[1],
                              .bias = biased ? input<const float>(buffers, 2) : nullptr,
                              .dx = buffers.outputs[0],
                              .dbias = biased ? output<float>(buffers, 1) : nullptr,
                              .accumulate = node.has(3),
                              .workspace = buffers.workspace};
  return run_by_rows<bias_activation_backward>(call, rows(node.type(0)));
}

PreparedNode bind_dropout_node(const OpContext& node, const NodeBuffers& buffers, int) {
  DropoutApply call{.dtype = node.type(0).dtype,
                    .rows = 0,
                    .columns = row_elements(node.type(0)),
                    .dropout = bind_dropout(node.attributes<DropoutAttributes>().dropout, buffers, 1),
                    .x = buffers.inputs[0],
                    .y = buffers.outputs[0]};
  return run_by_rows<dropout_apply>(call, rows(node.type(0)));
}

PreparedNode bind_layer_norm(const OpContext& node, const NodeBuffers& buffers, int) {
  LayerNormForward call{.dtype = node.type(0).dtype,
                        .rows = 0,
                        .hidden = row_elements(node.type(0)),
                        .epsilon = node.attributes<NormalizationAttributes>().epsilon,
                        .x = buffers.inputs[0],
                        .gamma = input<const float>(buffers, 1),
                        .beta = input<const float>(buffers, 2),
                        .y = buffers.outputs[0],
                        .mean = output<float>(buffers, 1),
                        .rstd = output<float>(buffers, 2)};
  return run_by_rows<layer_norm_forward>(call, rows(node.type(0)));
}

// Each group of columns that gamma is as long as is a row of its own.
template <auto kKernel, typename Call>
PreparedNode run_by_groups(Call call, const TensorType& type) {
  return [call, rows = rows(type), groups = row_elements(type) / call.hidden](const int64_t* counts) mutable {
    call.rows = rows(counts) * groups;
    kKernel(call);
  };
}

// Of one table for all heads of a token, where the op has one.
template <typename Call>
void set_table(const OpContext& node, const NodeBuffers& buffers, int64_t input_index, Call& call) {
  call.table = input<const float>(buffers, static_cast<size_t>(input_index));
  call.groups = row_elements(node.type(0)) / call.hidden;
}

PreparedNode bind_rms_norm(const OpContext& node, const NodeBuffers& buffers, int) {
  RmsNormForward call{.dtype = node.type(0).dtype,
                      .rows = 0,
                      .hidden = node.type(1).shape[0].maximum,
                      .epsilon = node.attributes<NormalizationAttributes>().epsilon,
                      .x = buffers.inputs[0],
                      .gamma = input<const float>(buffers, 1),
                      .y = buffers.outputs[0],
                      .rstd = output<float>(buffers, 1)};
  if (node.node.kind == OpKind::kRmsNormRotary) set_table(node, buffers, 2, call);
  return run_by_groups<rms_norm_forward>(call, node.type(0));
}

PreparedNode bind_rms_norm_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  const bool is_turned = node.node.kind == OpKind::kRmsNormRotaryGrad;
  RmsNormBackward call{.dtype = node.type(0).dtype,
                       .rows = 0,
                       .hidden = node.type(3).shape[0].maximum,
                       .dy = buffers.inputs[0],
                       .dx_addend = nullptr,
                       .x = buffers.inputs[1],
                       .rstd = input<const float>(buffers, 2),
                       .gamma = input<const float>(buffers, 3),
                       .dx = buffers.outputs[0],
                       .dgamma = output<float>(buffers, 1),
                       .accumulate = node.has(is_turned ? 5 : 4),
                       .workspace = buffers.workspace};
  if (is_turned) set_table(node, buffers, 4, call);
  return run_by_groups<rms_norm_backward>(call, node.type(0));
}

PreparedNode bind_residual_rms_norm(const OpContext& node, const NodeBuffers& buffers, int) {
  const ResidualRmsNormForward call{.dtype = node.type(0).dtype,
                                    .rows = 0,
                                    .hidden = node.type(2).shape[0].maximum,
                                    .epsilon = node.attributes<NormalizationAttributes>().epsilon,
                                    .x = buffers.inputs[0],
                                    .residual = buffers.inputs[1],
                                    .gamma = input<const float>(buffers, 2),
                                    .z = buffers.outputs[1],
                                    .y = buffers.outputs[0],
                                    .rstd = output<float>(buffers, 2)};
  return run_by_groups<residual_rms_norm_forward>(call, node.type(0));
}

PreparedNode bind_residual_rms_norm_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  const RmsNormBackward call{.dtype = node.type(0).dtype,
                             .rows = 0,
                             .hidden = node.type(3).shape[0].maximum,
                             .dy = buffers.inputs[0],
                             .dx_addend = node.has(4) ? buffers.inputs[4] : nullptr,
                             .x = buffers.inputs[1],
                             .rstd = input<const float>(buffers, 2),
                             .gamma = input<const float>(buffers, 3),
                             .dx = buffers.outputs[0],
                             .dgamma = output<float>(buffers, 1),
                             .accumulate = node.has(5),
                             .workspace = buffers.workspace};
  return run_by_groups<rms_norm_backward>(call, node.type(0));
}

PreparedNode bind_layer_norm_output(const OpContext& node, const NodeBuffers& buffers, int) {
  LayerNormOutput call{.dtype = node.type(0).dtype,
                       .rows = 0,
                       .hidden = row_elements(node.type(0)),
                       .z = buffers.inputs[0],
                       .mean = input<const float>(buffers, 1),
                       .rstd = input<const float>(buffers, 2),
                       .gamma = input<const float>(buffers, 3),
                       .beta = input<const float>(buffers, 4),
                       .y = buffers.outputs[0]};
  return run_by_rows<layer_norm_output>(call, rows(node.type(0)));
}

PreparedNode bind_layer_norm_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  LayerNormBackward call{.dtype = node.type(0).dtype,
                         .rows = 0,
                         .hidden = row_elements(node.type(0)),
                         .dy = buffers.inputs[0],
                         .x = buffers.inputs[1],
                         .mean = input<const float>(buffers, 2),
                         .rstd = input<const float>(buffers, 3),
                         .gamma = input<const float>(buffers, 4),
                         .dx = buffers.outputs[0],
                         .dgamma = output<float>(buffers, 1),
                         .dbeta = output<float>(buffers, 2),
                         .accumulate = {.dgamma = node.has(5), .dbeta = node.has(6)},
                         .workspace = buffers.workspace};
  return run_by_rows<layer_norm_backward>(call, rows(node.type(0)));
}

PreparedNode bind_residual_norm(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& attributes = node.attributes<NormalizationAttributes>();
  BiasDropoutResidualLayerNormForward call{.dtype = node.type(0).dtype,
                                           .rows = 0,
                                           .hidden = row_elements(node.type(0)),
                                           .epsilon = attributes.epsilon,
                                           .dropout = bind_dropout(attributes.dropout, buffers, 5),
                                           .x = buffers.inputs[0],
                                           .bias = input<const float>(buffers, 1),
                                           .residual = buffers.inputs[2],
                                           .gamma = input<const float>(buffers, 3),
                                           .beta = input<const float>(buffers, 4),
                                           .z = buffers.outputs[1],
                                           .y = buffers.outputs[0],
                                           .mean = output<float>(buffers, 2),
                                           .rstd = output<float>(buffers, 3)};
  return run_by_rows<bias_dropout_residual_layer_norm_forward>(call, rows(node.type(0)));
}

PreparedNode bind_residual_norm_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  BiasDropoutResidualLayerNormBackward call{
      .dtype = node.type(0).dtype,
      .rows = 0,
      .hidden = row_elements(node.type(0)),
      .dropout = bind_dropout(node.attributes<NormalizationAttributes>().dropout, buffers, 5),
      .dy = buffers.inputs[0],
      .dz_addend = node.has(8) ? buffers.inputs[8] : nullptr,
      .z = buffers.inputs[1],
      .mean = input<const float>(buffers, 2),
      .rstd = input<const float>(buffers, 3),
      .gamma = input<const float>(buffers, 4),
      .dresidual = buffers.outputs[0],
      .dx = buffers.outputs[1],
      .dbias = output<float>(buffers, 2),
      .dgamma = output<float>(buffers, 3),
      .dbeta = output<float>(buffers, 4),
      .accumulate = {.dgamma = node.has(10), .dbeta = node.has(11), .dbias = node.has(9)},
      .workspace = buffers.workspace};
  return run_by_rows<bias_dropout_residual_layer_norm_backward>(call, rows(node.type(0)));
}

PreparedNode bind_embedding(const OpContext& node, const NodeBuffers& buffers, int) {
  EmbeddingForward call{.table_dtype = node.type(0).dtype,
                        .dtype = node.output_type(0).dtype,
                        .rows = 0,
                        .hidden = row_elements(node.type(0)),
                        .entries = node.type(0).shape[0].maximum,
                        .table = buffers.inputs[0],
                        .ids = input<const int32_t>(buffers, 1),
                        .addend = node.has(2) ? buffers.inputs[2] : nullptr,
                        .y = buffers.outputs[0]};
  return [call, rows = rows(node.type(1))](const int64_t* counts) mutable {
    call.rows = rows(counts);
    embedding_forward(call);
  };
}

PreparedNode bind_embedding_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  EmbeddingBackward call{.dtype = node.type(0).dtype,
                         .rows = 0,
                         .hidden = row_elements(node.type(0)),
                         .entries = node.output_type(0).shape[0].maximum,
                         .dy = buffers.inputs[0],
                         .ids = input<const int32_t>(buffers, 1),
                         .padding_index = node.attributes<EmbeddingAttributes>().padding_index,
                         .accumulate = node.has(2),
                         .dtable = output<float>(buffers, 0)};
  return [call, rows = rows(node.type(1))](const int64_t* counts) mutable {
    call.rows = rows(counts);
    embedding_backward(call);
  };
}

PreparedNode bind_embedding_noise(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& attributes = node.attributes<NoiseAttributes>();
  EmbeddingNoise call{.dtype = node.type(0).dtype,
                      .rows = 0,
                      .columns = row_elements(node.type(0)),
                      .sequences = 0,
                      .alpha = attributes.alpha,
                      .seed = attributes.seed,
                      .stream_id = attributes.stream_id,
                      .step = input<const uint32_t>(buffers, 1),
                      .start = input<const int32_t>(buffers, 2),
                      .length = input<const int32_t>(buffers, 3),
                      .sample = input<const int32_t>(buffers, 4),
                      .x = buffers.inputs[0],
                      .y = buffers.outputs[0]};
  return [call, rows = rows(node.type(0)), sequences = rows(node.type(2))](const int64_t* counts) mutable {
    call.rows = rows(counts);
    call.sequences = sequences(counts);
    embedding_noise(call);
  };
}

template <int64_t (*bytes)(int64_t, int64_t)>
int64_t by_rows(const OpContext& node, int) {
  return bytes(node.type(0).shape[0].maximum, row_elements(node.type(0)));
}

int64_t rms_norm_workspace(const OpContext& node, int) {
  const int64_t hidden = node.type(3).shape[0].maximum;
  return rms_norm_backward_workspace_bytes(node.type(0).shape.elements() / hidden, hidden);
}

}  // namespace

std::vector<KernelEntry> rowwise_kernels() {
  return {
      {OpKind::kAdd, nullptr, bind_add},
      {OpKind::kMultiply, nullptr, bind_multiply},
      {OpKind::kBiasAdd, nullptr, bind_bias_add},
      {OpKind::kColumnSum, by_rows<column_sum_workspace_bytes>, bind_column_sum},
      {OpKind::kActivation, nullptr, bind_activation},
      {OpKind::kActivationGrad, nullptr, bind_activation_grad},
      {OpKind::kGatedActivation, nullptr, bind_gated_activation},
      {OpKind::kGatedActivationGrad, nullptr, bind_gated_activation_grad},
      {OpKind::kBiasActivation, nullptr, bind_activation},
      {OpKind::kBiasActivationGrad, by_rows<bias_activation_backward_workspace_bytes>, bind_activation_grad},
      {OpKind::kDropout, nullptr, bind_dropout_node},
      {OpKind::kLayerNorm, nullptr, bind_layer_norm},
      {OpKind::kLayerNormGrad, by_rows<layer_norm_backward_workspace_bytes>, bind_layer_norm_grad},
      {OpKind::kLayerNormOutput, nullptr, bind_layer_norm_output},
      {OpKind::kRmsNorm, nullptr, bind_rms_norm},
      {OpKind::kRmsNormGrad, rms_norm_workspace, bind_rms_norm_grad},
      {OpKind::kRmsNormRotary, nullptr, bind_rms_norm},
      {OpKind::kRmsNormRotaryGrad, rms_norm_workspace, bind_rms_norm_grad},
      {OpKind::kBiasDropoutResidualLayerNorm, nullptr, bind_residual_norm},
      {OpKind::kBiasDropoutResidualLayerNormGrad,
       by_rows<bias_dropout_residual_layer_norm_backward_workspace_bytes>, bind_residual_norm_grad},
      {OpKind::kResidualRmsNorm, nullptr, bind_residual_rms_norm},
      {OpKind::kResidualRmsNormGrad, rms_norm_workspace, bind_residual_rms_norm_grad},
      {OpKind::kEmbedding, nullptr, bind_embedding},
      {OpKind::kEmbeddingGrad, nullptr, bind_embedding_grad},
      {OpKind::kEmbeddingNoise, nullptr, bind_embedding_noise},
  };
}

}  // namespace shoehorn::cpu
