#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/philox.h"
#include "exec/cpu/attention/attention_task.h"
#include "exec/cpu/simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/attention/attention_forward.cc"
#include "hwy/foreach_target.h"
// Highway's order: after foreach_target.h.
#include "exec/cpu/attention/attention_block-inl.h"
#include "exec/cpu/attention/attention_rows-inl.h"
#include "exec/cpu/attention/attention_softmax-inl.h"
#include "exec/cpu/simd/philox_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

// The scores of a block in `strip`: adds the bias, then calls softmax_row for each row. The rows of `output`
// summed so far are rescaled to the new maximum, unless this is their first block. The probabilities become Operands.
template <class Operand, bool kDropout>
void softmax_strip(const AttentionBatch& batch, const TaskSequence& sequence, int64_t head, PhiloxRow counter,
                   const ScoreBlock& block, bool is_first, float* strip, int64_t strip_stride, float* maximum,
                   float* sum, float* output, int64_t output_stride) {
  alignas(64) uint8_t keep_bits[philox_keep_bytes(kForwardKeys)];
  const uint32_t threshold = drop_threshold(batch.dropout.p);
  const float score_scale = scale_of_scores<Operand>(batch);
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t query = block.first_query + i;
    float* row = strip + i * strip_stride;
    const RowRange visible = block.visible(sequence, query);
    if (batch.has_bias) {
      const float* bias = batch.bias + head * batch.bias_columns() + bias_column(batch, sequence, query);
      add_scaled_row(bias + block.first_key, block.keys, kLog2E / score_scale, row);
    }
    if constexpr (kDropout) {
      counter.position = static_cast<uint32_t>(query);
      philox_keep_bits(counter, threshold, block.first_key, std::max<int64_t>(visible.end, 0), keep_bits);
    }
    const float rescale =
        softmax_row<kDropout>(row, block.keys, visible, keep_bits, score_scale, maximum[i], sum[i]);
    if constexpr (std::is_same_v<Operand, Bf16Pair>) narrow_in_place(row, block.keys);
    if (!is_first) scale_row(output + i * output_stride, output_stride, rescale);
  }
}

// A block of queries with a block of keys: scores, softmax, and the contribution to the output. `keys` and
// `values` are packed from first_packed_key on.
template <class Operand, bool kDropout>
void forward_block(const AttentionBatch& batch, const TaskSequence& sequence, int64_t head,
                   const PhiloxRow& counter, const ScoreBlock& block, bool is_first,
                   const ForwardLayout& layout, int64_t first_task_query, int64_t first_packed_key,
                   float* workspace) {
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t first = block.first_query - first_task_query;
  const int64_t first_key = block.first_key - first_packed_key;
  const int64_t depth = operands_of<Operand>(size);
  const int64_t row = operands_of<Operand>(padded);
  float* output = workspace + layout.output + first * padded;
  float* strip = workspace + layout.strip;
  multiply<Operand>({.a = operands<Operand>(workspace + layout.queries) + first * row,
                     .a_row = row,
                     .a_step = 1,
                     .b = operands<Operand>(workspace + layout.keys) + first_key * depth,
                     .b_step = kPanel,
                     .b_panel = depth * kPanel,
                     .c = strip,
                     .c_row = layout.strip_stride,
                     .m = block.queries,
                     .n = block.keys,
                     .k = depth,
                     .accumulate = false});
  softmax_strip<Operand, kDropout>(batch, sequence, head, counter, block, is_first, strip,
                                   layout.strip_stride, workspace + layout.maximum + first,
                                   workspace + layout.sum + first, output, padded);
  multiply<Operand>(
      {.a = operands<Operand>(strip),
       .a_row = layout.strip_stride,
       .a_step = 1,
       .b = operands<Operand>(workspace + layout.values) + operands_of<Operand>(first_key) * padded,
       .b_step = padded,
       .b_panel = kPanel,
       .c = output,
       .c_row = padded,
       .m = block.queries,
       .n = size,
       .k = operands_of<Operand>(block.keys),
       .accumulate = !is_first});
}

// Rows of context and log-sum-exp of a task's queries; zeros for a query that saw no key.
template <class T>
void write_output(const AttentionForward& arguments, const ForwardLayout& layout, int64_t head, int64_t row,
                  int64_t queries, float dropout_scale, const float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t columns = batch.query_columns();
  const float* output = workspace + layout.output;
  const float* maximum = workspace + layout.maximum;
  const float* sum = workspace + layout.sum;
  T* context = static_cast<T*>(arguments.context) + row * columns + head * size;
  float* logsumexp = arguments.logsumexp + head * batch.query_rows + row;
  for (int64_t i = 0; i < queries; ++i) {
    if (sum[i] == 0.0F) {
      std::fill_n(context + i * columns, size, T{});
      logsumexp[i] = 0.0F;
      continue;
    }
    unpack_rows(output + i * padded, padded, 1, size, dropout_scale / sum[i], context + i * columns, columns);
    logsumexp[i] = maximum[i] * kLn2 + std::log(sum[i]);
  }
}

template <class T, class Operand, bool kDropout>
void forward_task(const AttentionForward& arguments, const ForwardLayout& layout, int64_t s, int64_t head,
                  int64_t first_query, float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const TaskSequence sequence(batch, s);
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t queries = std::min(kForwardQueries, sequence.queries - first_query);
  const T* q = head_rows<T>(arguments.q, sequence.first_query_row + first_query, head * size);
  const T* k = head_rows<T>(arguments.k, sequence.first_key_row, head / batch.group() * size);
  const T* v = head_rows<T>(arguments.v, sequence.first_key_row, head / batch.group() * size);

  PhiloxRow counter{};
  if constexpr (kDropout) {
    counter = {philox_key(batch.dropout.seed, *batch.dropout.step, batch.dropout.stream_id), 0,
               static_cast<uint32_t>(batch.sequence_sample[s]), static_cast<uint32_t>(head)};
  }
  pack_left(q, arguments.q.stride, queries, size, batch.scale * kLog2E, padded,
            operands<Operand>(workspace + layout.queries));
  std::fill_n(workspace + layout.maximum, queries, -std::numeric_limits<float>::infinity());
  std::fill_n(workspace + layout.sum, queries, 0.0F);

  const RowRange task_keys = sequence.visible(first_query, first_query + queries);
  for (int64_t first_key = task_keys.begin / kPanel * kPanel; first_key < task_keys.end;
       first_key += kForwardKeys) {
    const int64_t block_keys = std::min(kForwardKeys, task_keys.end - first_key);
    pack_panels(k + first_key * arguments.k.stride, arguments.k.stride, block_keys, size, 1.0F,
                operands<Operand>(workspace + layout.keys));
    pack_right(v + first_key * arguments.v.stride, arguments.v.stride, block_keys, size, padded,
               operands<Operand>(workspace + layout.values));
    for (int64_t i = 0; i < queries; i += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, queries - i);
      const RowRange seen = sequence.visible(first_query + i, first_query + i + rows);
      // Whole panels of keys from the first that any of the queries sees.
      const int64_t begin = std::max(first_key, seen.begin / kPanel * kPanel);
      const int64_t end = std::min(first_key + block_keys, seen.end);
      if (begin >= end) continue;
      forward_block<Operand, kDropout>(batch, sequence, head, counter,
                                       {first_query + i, rows, begin, end - begin}, first_key <= seen.begin,
                                       layout, first_query, first_key, workspace);
    }
  }
  write_output<T>(arguments, layout, head, sequence.first_query_row + first_query, queries,
                  kDropout ? keep_scale(batch.dropout.p) : 1.0F, workspace);
}

}  // namespace attention

ForwardTask choose_forward_task(const AttentionBatch& batch) {
  return attention::choose_task<ForwardTask>(batch, [](auto type, auto operand, auto dropout) -> ForwardTask {
    return &attention::forward_task<decltype(type), decltype(operand), decltype(dropout)::value>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(choose_forward_task);

ForwardTask select_forward_task(const AttentionBatch& batch) {
  return HWY_DYNAMIC_DISPATCH(choose_forward_task)(batch);
}

}  // namespace shoehorn::cpu
#endif
