#include <algorithm>
#include <cstdint>

#include "base/philox.h"
#include "exec/cpu/attention/attention_task.h"
#include "exec/cpu/simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/attention/attention_backward.cc"
#include "hwy/foreach_target.h"
// Highway's order: after foreach_target.h.
#include "exec/cpu/attention/attention_block-inl.h"
#include "exec/cpu/attention/attention_softmax-inl.h"
#include "exec/cpu/simd/philox_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

// Query head `head` of a sequence, and its row of the sequence's gradient of the bias (null: none wanted).
struct TaskHead {
  const AttentionBatch& batch;
  const TaskSequence& sequence;
  int64_t head;
  PhiloxRow counter;
  float* dbias;
};

// Turns scores (in strip) and gradients of the dropped probabilities (in dstrip) into dropped probabilities
// and gradients of the scores. The latter are also the gradients of the bias.
template <bool kDropout>
void gradient_strip(const TaskHead& task, const ScoreBlock& block, const BackwardLayout& layout,
                    float* workspace) {
  alignas(64) uint8_t keep_bits[philox_keep_bytes(kBackwardKeys)];
  const AttentionBatch& batch = task.batch;
  const uint32_t threshold = drop_threshold(batch.dropout.p);
  PhiloxRow counter = task.counter;
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t query = block.first_query + i;
    const RowRange visible = block.visible(task.sequence, query);
    float* score = workspace + layout.strip + i * layout.strip_stride;
    float* gradient = workspace + layout.dstrip + i * layout.strip_stride;
    const int64_t column = bias_column(batch, task.sequence, query) + block.first_key;
    if (batch.has_bias) {
      add_scaled_row(batch.bias + task.head * batch.bias_columns() + column, block.keys, kLog2E, score);
    }
    if constexpr (kDropout) {
      counter.position = static_cast<uint32_t>(query);
      philox_keep_bits(counter, threshold, block.first_key, std::max<int64_t>(visible.end, 0), keep_bits);
    }
    gradient_row<kDropout>(score, gradient, block.keys, visible, keep_bits,
                           workspace[layout.logsumexp + query], workspace[layout.delta + query]);
    if (task.dbias != nullptr) add_scaled_row(gradient, block.keys, 1.0F, task.dbias + column);
  }
}

// The five products of a block: scores, the gradient of the probabilities, and the contributions to dQ, dK
// and dV. Keys and values are packed from first_packed_key on; dkeys and dvalues point to the rows of that
// key.
template <bool kDropout>
void gradient_block(const TaskHead& task, const ScoreBlock& block, bool is_first,
                    const BackwardLayout& layout, int64_t first_packed_key, float* dkeys, float* dvalues,
                    float* workspace) {
  const int64_t size = task.batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t first_key = block.first_key - first_packed_key;
  const float* queries = workspace + layout.queries + block.first_query * padded;
  const float* doutput = workspace + layout.doutput + block.first_query * padded;
  float* strip = workspace + layout.strip;
  float* dstrip = workspace + layout.dstrip;
  const auto against_keys = [&](const float* rows, const float* panels, float* out) {
    multiply({.a = rows,
              .a_row = padded,
              .a_step = 1,
              .b = panels + first_key * size,
              .b_step = kPanel,
              .b_panel = size * kPanel,
              .c = out,
              .c_row = layout.strip_stride,
              .m = block.queries,
              .n = block.keys,
              .k = size,
              .accumulate = false});
  };
  const auto add_for_keys = [&](const float* strip_of_queries, const float* rows, float* out) {
    multiply({.a = strip_of_queries,
              .a_row = 1,
              .a_step = layout.strip_stride,
              .b = rows,
              .b_step = padded,
              .b_panel = kPanel,
              .c = out + first_key * padded,
              .c_row = padded,
              .m = block.keys,
              .n = size,
              .k = block.queries,
              .accumulate = true});
  };
  against_keys(queries, workspace + layout.keys_transposed, strip);
  against_keys(doutput, workspace + layout.values_transposed, dstrip);
  gradient_strip<kDropout>(task, block, layout, workspace);
  add_for_keys(strip, doutput, dvalues);
  add_for_keys(dstrip, queries, dkeys);
  multiply({.a = dstrip,
            .a_row = layout.strip_stride,
            .a_step = 1,
            .b = workspace + layout.keys + first_key * padded,
            .b_step = padded,
            .b_panel = kPanel,
            .c = workspace + layout.dqueries + block.first_query * padded,
            .c_row = padded,
            .m = block.queries,
            .n = size,
            .k = block.keys,
            .accumulate = !is_first});
}

// Packs the data of a head's queries: Q, dO, log-sum-exp and delta. The context is packed where dQ will be: a
// query that sees no key has zeros in both.
template <class T>
void pack_queries(const AttentionBackward& arguments, const BackwardLayout& layout,
                  const TaskSequence& sequence, int64_t head, float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t columns = batch.query_columns();
  const int64_t row = sequence.first_query_row;
  const int64_t length = sequence.queries;
  const int64_t offset = row * columns + head * size;
  float* doutput = workspace + layout.doutput;
  float* output = workspace + layout.dqueries;  // free until the first block of keys
  pack_rows(head_rows<T>(arguments.q, row, head * size), arguments.q.stride, length, size,
            batch.scale * kLog2E, padded, workspace + layout.queries);
  pack_rows(static_cast<const T*>(arguments.dcontext) + offset, columns, length, size, 1.0F, padded, doutput);
  pack_rows(static_cast<const T*>(arguments.context) + offset, columns, length, size, 1.0F, padded, output);
  for (int64_t i = 0; i < length; ++i) {
    workspace[layout.logsumexp + i] = arguments.logsumexp[head * batch.query_rows + row + i] * kLog2E;
    workspace[layout.delta + i] = dot_row(output + i * padded, doutput + i * padded, padded);
  }
}

// Keys [first_key, first_key + block_keys) against all queries of a head that see any of them. The first head
// of a group starts the gradients of these keys and values, and the last one writes them.
template <class T, bool kDropout>
void backward_keys(const AttentionBackward& arguments, const TaskHead& task, const BackwardLayout& layout,
                   int64_t first_key, int64_t block_keys, float* workspace) {
  const AttentionBatch& batch = task.batch;
  const TaskSequence& sequence = task.sequence;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t group = batch.group();
  const int64_t row = sequence.first_key_row + first_key;
  const int64_t column = task.head / group * size;
  const float dropout_scale = kDropout ? keep_scale(batch.dropout.p) : 1.0F;
  const T* k = head_rows<T>(arguments.k, row, column);
  const T* v = head_rows<T>(arguments.v, row, column);
  float* dkeys = workspace + layout.dkeys + (group > 1 ? first_key * padded : 0);
  float* dvalues = workspace + layout.dvalues + (group > 1 ? first_key * padded : 0);
  pack_transposed(k, arguments.k.stride, block_keys, size, 1.0F, workspace + layout.keys_transposed);
  pack_transposed(v, arguments.v.stride, block_keys, size, dropout_scale,
                  workspace + layout.values_transposed);
  pack_rows(k, arguments.k.stride, block_keys, size, 1.0F, padded, workspace + layout.keys);
  if (task.head % group == 0) {
    std::fill_n(dkeys, block_keys * padded, 0.0F);
    std::fill_n(dvalues, block_keys * padded, 0.0F);
  }
  for (int64_t i = 0; i < sequence.queries; i += kQueryBlock) {
    const int64_t rows = std::min(kQueryBlock, sequence.queries - i);
    const RowRange seen = sequence.visible(i, i + rows);
    // Whole panels of keys from the first that any of the queries sees.
    const int64_t begin = std::max(first_key, seen.begin / kPanel * kPanel);
    const int64_t end = std::min(first_key + block_keys, seen.end);
    if (begin >= end) continue;
    gradient_block<kDropout>(task, {i, rows, begin, end - begin}, first_key <= seen.begin, layout, first_key,
                             dkeys, dvalues, workspace);
  }
  if (task.head % group != group - 1) return;
  // Queries were packed times scale · log2(e): what dK needs more is ln 2.
  unpack_rows(dkeys, padded, block_keys, size, kLn2, head_rows<T>(arguments.dk, row, column),
              arguments.dk.stride);
  unpack_rows(dvalues, padded, block_keys, size, dropout_scale, head_rows<T>(arguments.dv, row, column),
              arguments.dv.stride);
}

template <class T, bool kDropout>
void backward_task(const AttentionBackward& arguments, const BackwardLayout& layout, int64_t s,
                   int64_t key_value_head, float* workspace, float* dbias) {
  const AttentionBatch& batch = arguments.batch;
  const TaskSequence sequence(batch, s);
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  for (int64_t member = 0; member < batch.group(); ++member) {
    const int64_t head = key_value_head * batch.group() + member;
    TaskHead task{batch, sequence, head, {}, dbias};
    if constexpr (kDropout) {
      task.counter = {philox_key(batch.dropout.seed, *batch.dropout.step, batch.dropout.stream_id), 0,
                      static_cast<uint32_t>(batch.sequence_sample[s]), static_cast<uint32_t>(head)};
    }
    if (dbias != nullptr) {
      task.dbias = dbias + head * batch.bias_columns();
      std::fill_n(task.dbias, batch.bias_columns(), 0.0F);
    }
    pack_queries<T>(arguments, layout, sequence, head, workspace);
    for (int64_t first_key = 0; first_key < sequence.keys; first_key += kBackwardKeys) {
      backward_keys<T, kDropout>(arguments, task, layout, first_key,
                                 std::min(kBackwardKeys, sequence.keys - first_key), workspace);
    }
    unpack_rows(workspace + layout.dqueries, padded, sequence.queries, size, batch.scale,
                head_rows<T>(arguments.dq, sequence.first_query_row, head * size), arguments.dq.stride);
  }
}

}  // namespace attention

BackwardTask choose_backward_task(const AttentionBatch& batch) {
  return choose_task<BackwardTask>(batch, [](auto type, auto dropout) -> BackwardTask {
    return &attention::backward_task<decltype(type), decltype(dropout)::value>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(choose_backward_task);

BackwardTask select_backward_task(const AttentionBatch& batch) {
  return HWY_DYNAMIC_DISPATCH(choose_backward_task)(batch);
}

}  // namespace shoehorn::cpu
#endif
