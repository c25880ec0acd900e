#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/philox.h"
#include "exec/cpu/attention/attention_task.h"
#include "exec/cpu/simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/attention/attention_backward.cc"
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

// Query head `head` of a sequence, and its row of the sequence's gradient of the bias (null: none wanted).
struct TaskHead {
  const AttentionBatch& batch;
  const TaskSequence& sequence;
  int64_t head;
  PhiloxRow counter;
  float* dbias;
};

// Turns scores (in strip) and gradients of the dropped probabilities (in dstrip) into dropped probabilities
// and gradients of the scores. The latter are also the gradients of the bias. Pairs: both as
// narrow_gradients_in_place leaves them.
template <class Operand, bool kDropout>
void gradient_strip(const TaskHead& task, const ScoreBlock& block, const BackwardLayout& layout,
                    float* workspace) {
  alignas(64) uint8_t keep_bits[philox_keep_bytes(kBackwardKeys)];
  const AttentionBatch& batch = task.batch;
  const uint32_t threshold = drop_threshold(batch.dropout.p);
  const float score_scale = scale_of_scores<Operand>(batch);
  PhiloxRow counter = task.counter;
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t query = block.first_query + i;
    const RowRange visible = block.visible(task.sequence, query);
    float* score = workspace + layout.strip + i * layout.strip_stride;
    float* gradient = workspace + layout.dstrip + i * layout.strip_stride;
    const int64_t column = bias_column(batch, task.sequence, query) + block.first_key;
    if (batch.has_bias) {
      add_scaled_row(batch.bias + task.head * batch.bias_columns() + column, block.keys, kLog2E / score_scale,
                     score);
    }
    if constexpr (kDropout) {
      counter.position = static_cast<uint32_t>(query);
      philox_keep_bits(counter, threshold, block.first_key, std::max<int64_t>(visible.end, 0), keep_bits);
    }
    gradient_row<kDropout>(score, gradient, block.keys, visible, keep_bits, score_scale,
                           scale_of_gradients<Operand>(batch), workspace[layout.logsumexp + query],
                           workspace[layout.delta + query]);
    if (task.dbias != nullptr) add_scaled_row(gradient, block.keys, 1.0F, task.dbias + column);
  }
  if constexpr (std::is_same_v<Operand, Bf16Pair>) {
    for (int64_t i = 0; i < block.queries; i += 2) {
      const int64_t row = i * layout.strip_stride;
      narrow_gradients_in_place(workspace + layout.strip + row, workspace + layout.dstrip + row,
                                layout.strip_stride, i + 1 < block.queries, block.keys);
    }
  }
}

// dQ of a block of queries: += the gradients of its scores times the keys, whose rows are `rows`.
void add_for_queries(const ScoreBlock& block, const BackwardLayout& layout, int64_t size, const float* rows,
                     float* workspace, bool is_first) {
  const int64_t padded = padded_head_size(size);
  multiply<float>({.a = workspace + layout.dstrip,
                   .a_row = layout.strip_stride,
                   .a_step = 1,
                   .b = rows,
                   .b_step = padded,
                   .b_panel = kPanel,
                   .c = workspace + layout.dqueries + block.first_query * padded,
                   .c_row = padded,
                   .m = block.queries,
                   .n = size,
                   .k = block.keys,
                   .accumulate = !is_first});
}
// Of pairs the gradients of even rows lie in the strip of probabilities, those of odd rows in their own.
void add_for_queries(const ScoreBlock& block, const BackwardLayout& layout, int64_t size,
                     const Bf16Pair* rows, float* workspace, bool is_first) {
  const int64_t padded = padded_head_size(size);
  for (const int64_t parity : {0, 1}) {
    const int64_t strip = parity == 0 ? layout.strip : layout.dstrip;
    multiply<Bf16Pair>({.a = operands<Bf16Pair>(workspace + strip + layout.strip_stride),
                        .a_row = 2 * layout.strip_stride,
                        .a_step = 1,
                        .b = rows,
                        .b_step = padded,
                        .b_panel = kPanel,
                        .c = workspace + layout.dqueries + (block.first_query + parity) * padded,
                        .c_row = 2 * padded,
                        .m = (block.queries + 1 - parity) / 2,
                        .n = size,
                        .k = operands_of<Bf16Pair>(block.keys),
                        .accumulate = !is_first});
  }
}

// The right operand of queries or of the gradients of their outputs; of floats the left one is that, too.
HWY_INLINE float* right_form(float* left, const BackwardLayout&) {
  return left;
}
HWY_INLINE Bf16Pair* right_form(Bf16Pair* left, const BackwardLayout& layout) {
  return left + layout.right_form;
}

// The five products of a block: scores, the gradient of the probabilities, and the contributions to dQ, dK
// and dV. Keys and values are packed from first_packed_key on; dkeys and dvalues point to the rows of that
// key.
template <class Operand, bool kDropout>
void gradient_block(const TaskHead& task, const ScoreBlock& block, bool is_first,
                    const BackwardLayout& layout, int64_t first_packed_key, float* dkeys, float* dvalues,
                    float* workspace) {
  const int64_t size = task.batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t depth = operands_of<Operand>(size);
  const int64_t row = operands_of<Operand>(padded);
  const int64_t first_key = block.first_key - first_packed_key;
  const auto against_keys = [&](int64_t rows, int64_t panels, int64_t out) {
    multiply<Operand>({.a = operands<Operand>(workspace + rows) + block.first_query * row,
                       .a_row = row,
                       .a_step = 1,
                       .b = operands<Operand>(workspace + panels) + first_key * depth,
                       .b_step = kPanel,
                       .b_panel = depth * kPanel,
                       .c = workspace + out,
                       .c_row = layout.strip_stride,
                       .m = block.queries,
                       .n = block.keys,
                       .k = depth,
                       .accumulate = false});
  };
  const auto add_for_keys = [&](int64_t strip, const Operand* rows, float* out) {
    multiply<Operand>({.a = operands<Operand>(workspace + strip),
                       .a_row = 1,
                       .a_step = layout.strip_stride * (std::is_same_v<Operand, float> ? 1 : 2),
                       .b = rows + operands_of<Operand>(block.first_query) * padded,
                       .b_step = padded,
                       .b_panel = kPanel,
                       .c = out + first_key * padded,
                       .c_row = padded,
                       .m = block.keys,
                       .n = size,
                       .k = operands_of<Operand>(block.queries),
                       .accumulate = true});
  };
  against_keys(layout.queries, layout.keys_transposed, layout.strip);
  against_keys(layout.doutput, layout.values_transposed, layout.dstrip);
  gradient_strip<Operand, kDropout>(task, block, layout, workspace);
  add_for_keys(layout.strip, right_form(operands<Operand>(workspace + layout.doutput), layout), dvalues);
  add_for_keys(layout.dstrip, right_form(operands<Operand>(workspace + layout.queries), layout), dkeys);
  add_for_queries(block, layout, size,
                  operands<Operand>(workspace + layout.keys) + operands_of<Operand>(first_key) * padded,
                  workspace, is_first);
}

// Packs rows of queries, or of the gradients of their outputs, as left and as right operands, which of floats are the
// same.
template <class T>
void pack_both(const T* rows, int64_t stride, int64_t length, int64_t size, float scale,
               const BackwardLayout&, float* out) {
  pack_left(rows, stride, length, size, scale, padded_head_size(size), out);
}
template <class T>
void pack_both(const T* rows, int64_t stride, int64_t length, int64_t size, float scale,
               const BackwardLayout& layout, Bf16Pair* out) {
  pack_left(rows, stride, length, size, scale, padded_head_size(size), out);
  pack_right(rows, stride, length, size, padded_head_size(size), right_form(out, layout));
}

// Packs the data of a head's queries: Q, dO, log-sum-exp and delta. The context is packed where dQ will be: a
// query that sees no key has zeros in both.
template <class T, class Operand>
void pack_queries(const AttentionBackward& arguments, const BackwardLayout& layout,
                  const TaskSequence& sequence, int64_t head, float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t columns = batch.query_columns();
  const int64_t row = sequence.first_query_row;
  const int64_t length = sequence.queries;
  const int64_t offset = row * columns + head * size;
  Operand* doutput = operands<Operand>(workspace + layout.doutput);
  float* output = workspace + layout.dqueries;  // free until the first block of keys
  pack_both(head_rows<T>(arguments.q, row, head * size), arguments.q.stride, length, size,
            batch.scale * kLog2E, layout, operands<Operand>(workspace + layout.queries));
  pack_both(static_cast<const T*>(arguments.dcontext) + offset, columns, length, size, 1.0F, layout, doutput);
  pack_rows(static_cast<const T*>(arguments.context) + offset, columns, length, size, 1.0F, padded, output);
  for (int64_t i = 0; i < length; ++i) {
    workspace[layout.logsumexp + i] = arguments.logsumexp[head * batch.query_rows + row + i] * kLog2E;
    workspace[layout.delta + i] =
        dot_row(output + i * padded, doutput + i * operands_of<Operand>(padded), padded);
  }
}

// Keys [first_key, first_key + block_keys) against all queries of a head that see any of them. The first head
// of a group starts the gradients of these keys and values, and the last one writes them.
template <class T, class Operand, bool kDropout>
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
  pack_panels(k, arguments.k.stride, block_keys, size, 1.0F,
              operands<Operand>(workspace + layout.keys_transposed));
  pack_panels(v, arguments.v.stride, block_keys, size, dropout_scale,
              operands<Operand>(workspace + layout.values_transposed));
  pack_right(k, arguments.k.stride, block_keys, size, padded, operands<Operand>(workspace + layout.keys));
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
    gradient_block<Operand, kDropout>(task, {i, rows, begin, end - begin}, first_key <= seen.begin, layout,
                                      first_key, dkeys, dvalues, workspace);
  }
  if (task.head % group != group - 1) return;
  // Floats of queries were packed times scale · log2(e): what dK needs more is ln 2.
  unpack_rows(dkeys, padded, block_keys, size, kLn2 * scale_of_scores<Operand>(batch),
              head_rows<T>(arguments.dk, row, column), arguments.dk.stride);
  unpack_rows(dvalues, padded, block_keys, size, dropout_scale, head_rows<T>(arguments.dv, row, column),
              arguments.dv.stride);
}

template <class T, class Operand, bool kDropout>
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
    pack_queries<T, Operand>(arguments, layout, sequence, head, workspace);
    for (int64_t first_key = 0; first_key < sequence.keys; first_key += kBackwardKeys) {
      backward_keys<T, Operand, kDropout>(arguments, task, layout, first_key,
                                          std::min(kBackwardKeys, sequence.keys - first_key), workspace);
    }
    unpack_rows(workspace + layout.dqueries, padded, sequence.queries, size, batch.scale,
                head_rows<T>(arguments.dq, sequence.first_query_row, head * size), arguments.dq.stride);
  }
}

}  // namespace attention

BackwardTask choose_backward_task(const AttentionBatch& batch) {
  return attention::choose_task<BackwardTask>(
      batch, [](auto type, auto operand, auto dropout) -> BackwardTask {
        return &attention::backward_task<decltype(type), decltype(operand), decltype(dropout)::value>;
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
