#include <cstring>

#include "exec/cpu/attention/attention.h"
#include "exec/cpu/attention/attention_unfused.h"
#include "exec/cpu/kernel_entry.h"
#include "ops/attention_layout.h"

namespace shoehorn::cpu {

namespace {

// What the shapes and attributes say of a node's batch.
AttentionBatch sizes(const OpContext& node) {
  const auto& attributes = node.attributes<AttentionAttributes>();
  const AttentionInputs inputs = attention_inputs(node.node.kind);
  AttentionBatch batch;
  batch.heads = attributes.heads;
  batch.key_value_heads = attributes.key_value_heads;
  batch.head_size = attributes.head_size;
  batch.max_query_length = attributes.max_query_length;
  batch.max_key_length = attributes.max_key_length;
  batch.scale = attributes.scale;
  batch.mask = attributes.mask;
  batch.has_bias = inputs.bias >= 0 && node.has(inputs.bias);
  batch.trains_bias = attributes.trains_bias;
  batch.max_sequences = node.type(inputs.start).shape[0].maximum;
  return batch;
}

// A batch whose numbers of rows and sequences are known when it runs.
struct RuntimeBatch {
  AttentionBatch batch;
  RuntimeDim query_rows;
  RuntimeDim key_rows;
  RuntimeDim sequences;

  const AttentionBatch& at(const int64_t* counts) {
    batch.query_rows = query_rows(counts);
    batch.key_rows = key_rows(counts);
    batch.sequences = sequences(counts);
    return batch;
  }
};

// `queries` and `keys`: dimensions that carry the counts of their rows.
RuntimeBatch bind_batch(const OpContext& node, const NodeBuffers& buffers, DType dtype, const Dim& queries,
                        const Dim& keys) {
  const AttentionInputs at = attention_inputs(node.node.kind);
  const auto integers = [&](int64_t i) { return input<const int32_t>(buffers, static_cast<size_t>(i)); };
  RuntimeBatch made{sizes(node), RuntimeDim(queries), RuntimeDim(keys), rows(node.type(at.start))};
  AttentionBatch& batch = made.batch;
  batch.dtype = dtype;
  batch.query_start = integers(at.start);
  batch.query_length = integers(at.start + 1);
  const int64_t key_start = node.has(at.key_start) ? at.key_start : at.start;
  batch.key_start = integers(key_start);
  batch.key_length = integers(key_start + 1);
  if (batch.has_bias) batch.bias = input<const float>(buffers, static_cast<size_t>(at.bias));
  if (at.sample < 0) return made;
  const shoehorn::Dropout& dropout = node.attributes<AttentionAttributes>().dropout;
  batch.sequence_sample = integers(at.sample);
  batch.dropout = {dropout.p, dropout.seed, dropout.stream_id,
                   input<const uint32_t>(buffers, static_cast<size_t>(at.sample + 1))};
  return made;
}

// A whole value as q, k or v of the unfused ops.
ConstHeadRows rows_of_input(const OpContext& node, const NodeBuffers& buffers, int64_t i) {
  return {buffers.inputs[static_cast<size_t>(i)], row_elements(node.type(i))};
}
HeadRows rows_of_output(const OpContext& node, const NodeBuffers& buffers, int64_t i) {
  return {buffers.outputs[static_cast<size_t>(i)], row_elements(node.output_type(i))};
}

// The columns of a value that a part of the fused op is.
ConstHeadRows columns_of(const OpContext& node, const NodeBuffers& buffers, const AttentionPart& part) {
  const TensorType& type = node.type(part.input);
  return {input<const std::byte>(buffers, static_cast<size_t>(part.input)) +
              part.column * dtype_bytes(type.dtype),
          row_elements(type)};
}
HeadRows gradient_of(const OpContext& node, const NodeBuffers& buffers, const AttentionPart& part) {
  const TensorType& type = node.type(part.input);
  return {
      output<std::byte>(buffers, static_cast<size_t>(part.gradient)) + part.column * dtype_bytes(type.dtype),
      row_elements(type)};
}

RuntimeBatch bind_fused_batch(const OpContext& node, const NodeBuffers& buffers,
                              const AttentionParts& parts) {
  const TensorType& q = node.type(parts.q.input);
  return bind_batch(node, buffers, q.dtype, q.shape[0], node.type(parts.k.input).shape[0]);
}

PreparedNode bind_attention(const OpContext& node, const NodeBuffers& buffers, int threads) {
  const AttentionParts parts = attention_parts(node);
  AttentionForward call;
  call.q = columns_of(node, buffers, parts.q);
  call.k = columns_of(node, buffers, parts.k);
  call.v = columns_of(node, buffers, parts.v);
  call.context = buffers.outputs[0];
  call.logsumexp = output<float>(buffers, 1);
  call.threads = threads;
  call.workspace = buffers.workspace;
  call.workspace_bytes = buffers.workspace_bytes;
  return [call, batch = bind_fused_batch(node, buffers, parts)](const int64_t* counts) mutable {
    call.batch = batch.at(counts);
    attention_forward(call);
  };
}

PreparedNode bind_attention_grad(const OpContext& node, const NodeBuffers& buffers, int threads) {
  const AttentionParts parts = attention_parts(node);
  AttentionBackward call;
  call.dcontext = buffers.inputs[0];
  call.context = buffers.inputs[1];
  call.logsumexp = input<const float>(buffers, 2);
  call.q = columns_of(node, buffers, parts.q);
  call.k = columns_of(node, buffers, parts.k);
  call.v = columns_of(node, buffers, parts.v);
  call.dq = gradient_of(node, buffers, parts.q);
  call.dk = gradient_of(node, buffers, parts.k);
  call.dv = gradient_of(node, buffers, parts.v);
  RuntimeBatch batch = bind_fused_batch(node, buffers, parts);
  if (batch.batch.trains_bias) call.dbias = output<float>(buffers, static_cast<size_t>(parts.v.gradient + 1));
  call.threads = threads;
  call.workspace = buffers.workspace;
  call.workspace_bytes = buffers.workspace_bytes;
  // Gradients with columns that attention does not write.
  struct Unread {
    std::byte* data;
    RuntimeDim rows;
    int64_t row_bytes;
  };
  std::vector<Unread> unread;
  for (const AttentionPart& part : {parts.q, parts.k, parts.v}) {
    if (reads_all_columns(node, parts, part.input)) continue;
    const TensorType& type = node.type(part.input);
    unread.push_back({output<std::byte>(buffers, static_cast<size_t>(part.gradient)), rows(type),
                      row_elements(type) * dtype_bytes(type.dtype)});
  }
  return [call, batch, unread](const int64_t* counts) mutable {
    for (const Unread& gradient : unread)
      std::memset(gradient.data, 0, static_cast<size_t>(gradient.rows(counts) * gradient.row_bytes));
    call.batch = batch.at(counts);
    attention_backward(call);
  };
}

template <int64_t (*bytes)(const AttentionBatch&, int)>
int64_t attention_workspace(const OpContext& node, int threads) {
  return bytes(sizes(node), threads);
}

PreparedNode bind_scores(const OpContext& node, const NodeBuffers& buffers, int) {
  const TensorType& queries = node.type(0);
  return [batch = bind_batch(node, buffers, queries.dtype, queries.shape[0], node.type(1).shape[0]),
          q = rows_of_input(node, buffers, 0), k = rows_of_input(node, buffers, 1),
          scores = output<float>(buffers, 0)](const int64_t* counts) mutable {
    attention_scores(batch.at(counts), q, k, scores);
  };
}

PreparedNode bind_scores_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  const TensorType& queries = node.type(1);
  const RuntimeBatch made = bind_batch(node, buffers, queries.dtype, queries.shape[0], node.type(2).shape[0]);
  return
      [batch = made, dscores = input<const float>(buffers, 0), q = rows_of_input(node, buffers, 1),
       k = rows_of_input(node, buffers, 2), dq = rows_of_output(node, buffers, 0),
       dk = rows_of_output(node, buffers, 1),
       dbias = made.batch.trains_bias ? output<float>(buffers, 2) : nullptr](const int64_t* counts) mutable {
        attention_scores_backward(batch.at(counts), dscores, q, k, dq, dk, dbias);
      };
}

// The scores [A, N, T] carry the queries' count in their second dimension; keys' rows are not read.
RuntimeBatch bind_score_rows(const OpContext& node, const NodeBuffers& buffers) {
  const TensorType& scores = node.type(0);
  return bind_batch(node, buffers, DType::kF32, scores.shape[1], scores.shape[1]);
}

PreparedNode bind_softmax(const OpContext& node, const NodeBuffers& buffers, int) {
  return [batch = bind_score_rows(node, buffers), scores = input<const float>(buffers, 0),
          dropped = output<float>(buffers, 0),
          probabilities = output<float>(buffers, 1)](const int64_t* counts) mutable {
    attention_softmax(batch.at(counts), scores, probabilities);
    attention_dropout(batch.batch, probabilities, dropped);
  };
}

PreparedNode bind_softmax_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  return [batch = bind_score_rows(node, buffers), ddropped = input<const float>(buffers, 0),
          probabilities = input<const float>(buffers, 1),
          dscores = output<float>(buffers, 0)](const int64_t* counts) mutable {
    attention_dropout(batch.at(counts), ddropped, dscores);
    attention_softmax_backward(batch.batch, dscores, probabilities, dscores);
  };
}

PreparedNode bind_context(const OpContext& node, const NodeBuffers& buffers, int) {
  const TensorType& values = node.type(1);
  return [batch = bind_batch(node, buffers, values.dtype, node.type(0).shape[1], values.shape[0]),
          probabilities = input<const float>(buffers, 0), v = rows_of_input(node, buffers, 1),
          context = buffers.outputs[0]](const int64_t* counts) mutable {
    attention_context(batch.at(counts), probabilities, v, context);
  };
}

PreparedNode bind_context_grad(const OpContext& node, const NodeBuffers& buffers, int) {
  const TensorType& values = node.type(2);
  return [batch = bind_batch(node, buffers, values.dtype, node.type(1).shape[1], values.shape[0]),
          dcontext = buffers.inputs[0], probabilities = input<const float>(buffers, 1),
          v = rows_of_input(node, buffers, 2), dprobabilities = output<float>(buffers, 0),
          dv = rows_of_output(node, buffers, 1)](const int64_t* counts) mutable {
    attention_context_backward(batch.at(counts), dcontext, probabilities, v, dprobabilities, dv);
  };
}

}  // namespace

std::vector<KernelEntry> attention_kernels() {
  return {
      {OpKind::kAttention, attention_workspace<attention_forward_workspace_bytes>, bind_attention},
      {OpKind::kAttentionGrad, attention_workspace<attention_backward_workspace_bytes>, bind_attention_grad},
      {OpKind::kAttentionScores, nullptr, bind_scores},
      {OpKind::kAttentionScoresGrad, nullptr, bind_scores_grad},
      {OpKind::kAttentionSoftmax, nullptr, bind_softmax},
      {OpKind::kAttentionSoftmaxGrad, nullptr, bind_softmax_grad},
      {OpKind::kAttentionContext, nullptr, bind_context},
      {OpKind::kAttentionContextGrad, nullptr, bind_context_grad},
  };
}

}  // namespace shoehorn::cpu
