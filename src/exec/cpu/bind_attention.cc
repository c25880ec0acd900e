#include "exec/cpu/attention.h"
#include "exec/cpu/attention_unfused.h"
#include "exec/cpu/kernel_entry.h"

namespace shoehorn::cpu {

namespace {

// The parts of a batch that are known before it runs: `tokens` is [N, A·D·parts], the sequences' inputs start
// at `first` (start, length, and for ops with dropout: sample, step).
AttentionBatch bind_batch(const OpContext& node, const NodeBuffers& buffers, const TensorType& tokens,
                          int64_t parts, size_t first) {
  const auto& attributes = node.attributes<AttentionAttributes>();
  AttentionBatch batch;
  batch.dtype = tokens.dtype;
  batch.heads = attributes.heads;
  batch.head_size = tokens.shape[1].maximum / parts / attributes.heads;
  batch.max_sequence_length = attributes.max_sequence_length;
  batch.sequence_start = input<const int32_t>(buffers, first);
  batch.sequence_length = input<const int32_t>(buffers, first + 1);
  batch.sequence_sample = input<const int32_t>(buffers, first + 2);
  batch.scale = attributes.scale;
  batch.causal = attributes.causal;
  batch.dropout = {attributes.dropout.p, attributes.dropout.seed, attributes.dropout.stream_id,
                   input<const uint32_t>(buffers, first + 3)};
  return batch;
}

struct BatchCount {
  RuntimeDim rows;
  RuntimeDim sequences;
  void set(AttentionBatch& batch, const int64_t* counts) const {
    batch.rows = rows(counts);
    batch.sequences = sequences(counts);
  }
};

PreparedNode bind_attention(const OpContext& node, const NodeBuffers& buffers, int threads) {
  AttentionForward call;
  call.batch = bind_batch(node, buffers, node.type(0), 3, 1);
  call.qkv = buffers.inputs[0];
  call.qkv_stride = node.type(0).shape[1].maximum;
  call.context = buffers.outputs[0];
  call.logsumexp = output<float>(buffers, 1);
  call.threads = threads;
  call.workspace = buffers.workspace;
  call.workspace_bytes = buffers.workspace_bytes;
  return [call, count = BatchCount{rows(node.type(0)), rows(node.type(1))}](const int64_t* counts) mutable {
    count.set(call.batch, counts);
    attention_forward(call);
  };
}

PreparedNode bind_attention_grad(const OpContext& node, const NodeBuffers& buffers, int threads) {
  AttentionBackward call;
  call.batch = bind_batch(node, buffers, node.type(1), 3, 4);
  call.dcontext = buffers.inputs[0];
  call.qkv = buffers.inputs[1];
  call.qkv_stride = node.type(1).shape[1].maximum;
  call.context = buffers.inputs[2];
  call.logsumexp = input<const float>(buffers, 3);
  call.dqkv = buffers.outputs[0];
  call.dqkv_stride = call.qkv_stride;
  call.threads = threads;
  call.workspace = buffers.workspace;
  call.workspace_bytes = buffers.workspace_bytes;
  return [call, count = BatchCount{rows(node.type(1)), rows(node.type(4))}](const int64_t* counts) mutable {
    count.set(call.batch, counts);
    attention_backward(call);
  };
}

template <int64_t (*bytes)(int64_t, int64_t, int64_t, int), int64_t kTokens>
int64_t attention_workspace(const OpContext& node, int threads) {
  const auto& attributes = node.attributes<AttentionAttributes>();
  return bytes(attributes.max_sequence_length, attributes.heads,
               node.type(kTokens).shape[1].maximum / 3 / attributes.heads, threads);
}

PreparedNode bind_scores(const OpContext& node, const NodeBuffers& buffers, int) {
  return [batch = bind_batch(node, buffers, node.type(0), 1, 2),
          count = BatchCount{rows(node.type(0)), rows(node.type(2))}, stride = row_elements(node.type(0)),
          q = buffers.inputs[0], k = buffers.inputs[1],
          scores = output<float>(buffers, 0)](const int64_t* counts) mutable {
    count.set(batch, counts);
    attention_scores(batch, q, k, stride, scores);
  };
}

PreparedNode bind_scores_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  return [batch = bind_batch(node, buffers, node.type(1), 1, 3),
          count = BatchCount{rows(node.type(1)), rows(node.type(3))}, stride = row_elements(node.type(1)),
          dscores = input<const float>(buffers, 0), q = buffers.inputs[1], k = buffers.inputs[2],
          dq = buffers.outputs[0], dk = buffers.outputs[1]](const int64_t* counts) mutable {
    count.set(batch, counts);
    attention_scores_backward(batch, dscores, q, k, stride, dq, dk);
  };
}

// The scores [A, N, T] carry the tokens' count in their second dimension.
PreparedNode bind_softmax(const OpContext& node, const NodeBuffers& buffers, int) {
  AttentionBatch batch = bind_batch(node, buffers, node.type(0), 1, 1);
  return [batch, count = BatchCount{RuntimeDim(node.type(0).shape[1]), rows(node.type(1))},
          scores = input<const float>(buffers, 0), dropped = output<float>(buffers, 0),
          probabilities = output<float>(buffers, 1)](const int64_t* counts) mutable {
    count.set(batch, counts);
    attention_softmax(batch, scores, probabilities);
    attention_dropout(batch, probabilities, dropped);
  };
}

PreparedNode bind_softmax_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  AttentionBatch batch = bind_batch(node, buffers, node.type(0), 1, 2);
  return [batch, count = BatchCount{RuntimeDim(node.type(0).shape[1]), rows(node.type(2))},
          ddropped = input<const float>(buffers, 0), probabilities = input<const float>(buffers, 1),
          dscores = output<float>(buffers, 0)](const int64_t* counts) mutable {
    count.set(batch, counts);
    attention_dropout(batch, ddropped, dscores);
    attention_softmax_backward(batch, dscores, probabilities, dscores);
  };
}

PreparedNode bind_context(const OpContext& node, const NodeBuffers& buffers, int) {
  return [batch = bind_batch(node, buffers, node.type(1), 1, 2),
          count = BatchCount{rows(node.type(1)), rows(node.type(2))}, stride = row_elements(node.type(1)),
          probabilities = input<const float>(buffers, 0), v = buffers.inputs[1],
          context = buffers.outputs[0]](const int64_t* counts) mutable {
    count.set(batch, counts);
    attention_context(batch, probabilities, v, stride, context);
  };
}

PreparedNode bind_context_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  return
      [batch = bind_batch(node, buffers, node.type(2), 1, 3),
       count = BatchCount{rows(node.type(2)), rows(node.type(3))}, stride = row_elements(node.type(2)),
       dcontext = buffers.inputs[0], probabilities = input<const float>(buffers, 1), v = buffers.inputs[2],
       dprobabilities = output<float>(buffers, 0), dv = buffers.outputs[1]](const int64_t* counts) mutable {
        count.set(batch, counts);
        attention_context_backward(batch, dcontext, probabilities, v, stride, dprobabilities, dv);
      };
}

}  // namespace

std::vector<KernelEntry> attention_kernels() {
  return {
      {OpKind::kAttention, attention_workspace<attention_forward_workspace_bytes, 0>, bind_attention},
      {OpKind::kAttentionGrad, attention_workspace<attention_backward_workspace_bytes, 1>,
       bind_attention_grad},
      {OpKind::kAttentionScores, nullptr, bind_scores},
      {OpKind::kAttentionScoresGrad, nullptr, bind_scores_grad},
      {OpKind::kAttentionSoftmax, nullptr, bind_softmax},
      {OpKind::kAttentionSoftmaxGrad, nullptr, bind_softmax_grad},
      {OpKind::kAttentionContext, nullptr, bind_context},
      {OpKind::kAttentionContextGrad, nullptr, bind_context_grad},
  };
}

}  // namespace shoehorn::cpu
