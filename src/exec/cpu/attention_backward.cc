#include <algorithm>
#include <cstdint>

#include "base/philox.h"
#include "exec/cpu/attention_task.h"
#include "exec/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/attention_backward.cc"
#include "hwy/foreach_target.h"
// Highway's order: after foreach_target.h.
#include "exec/cpu/attention_block-inl.h"
#include "exec/cpu/attention_softmax-inl.h"
#include "exec/cpu/philox_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

// A block of queries and a block of keys, both packed.
struct GradientBlock {
  int64_t first_query;
  int64_t queries;
  int64_t first_key;
  int64_t keys;
};

// From scores (in strip) and gradients of the dropped probabilities (in dstrip) to dropped probabilities and
// gradients of the scores.
template <bool kDropout>
void gradient_strip(const AttentionBatch& batch, PhiloxRow counter, const GradientBlock& block,
                    const BackwardLayout& layout, float* workspace) {
  alignas(64) uint8_t keep_bits[philox_keep_bytes(kBackwardKeys)];
  const uint32_t threshold = drop_threshold(batch.dropout.p);
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t query = block.first_query + i;
    const int64_t visible = batch.causal ? std::min(block.keys, query + 1 - block.first_key) : block.keys;
    if constexpr (kDropout) {
      counter.position = static_cast<uint32_t>(query);
      philox_keep_bits(counter, threshold, block.first_key, std::max<int64_t>(visible, 0), keep_bits);
    }
    gradient_row<kDropout>(workspace + layout.strip + i * layout.strip_stride,
                           workspace + layout.dstrip + i * layout.strip_stride, block.keys, visible,
                           keep_bits, workspace[layout.logsumexp + query], workspace[layout.delta + query]);
  }
}

// The five products of a block: scores, gradient of the probabilities, and what they add to dQ, dK and dV.
template <bool kDropout>
void gradient_block(const AttentionBatch& batch, const PhiloxRow& counter, const GradientBlock& block,
                    const BackwardLayout& layout, float* workspace) {
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const float* queries = workspace + layout.queries + block.first_query * padded;
  const float* doutput = workspace + layout.doutput + block.first_query * padded;
  float* strip = workspace + layout.strip;
  float* dstrip = workspace + layout.dstrip;
  const auto against_keys = [&](const float* rows, const float* panels, float* out) {
    multiply({.a = rows,
              .a_row = padded,
              .a_step = 1,
              .b = panels,
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
              .c = out,
              .c_row = padded,
              .m = block.keys,
              .n = size,
              .k = block.queries,
              .accumulate = true});
  };
  against_keys(queries, workspace + layout.keys_transposed, strip);
  against_keys(doutput, workspace + layout.values_transposed, dstrip);
  gradient_strip<kDropout>(batch, counter, block, layout, workspace);
  add_for_keys(strip, doutput, workspace + layout.dvalues);
  add_for_keys(dstrip, queries, workspace + layout.dkeys);
  multiply({.a = dstrip,
            .a_row = layout.strip_stride,
            .a_step = 1,
            .b = workspace + layout.keys,
            .b_step = padded,
            .b_panel = kPanel,
            .c = workspace + layout.dqueries + block.first_query * padded,
            .c_row = padded,
            .m = block.queries,
            .n = size,
            .k = block.keys,
            .accumulate = block.first_key > 0});
}

// Packs what belongs to the queries of the head: Q, dO, log-sum-exp and delta.
template <class T>
void pack_queries(const AttentionBackward& arguments, const BackwardLayout& layout, int64_t sequence,
                  int64_t head, float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t hidden = batch.heads * size;
  const int64_t start = batch.sequence_start[sequence];
  const int64_t length = batch.sequence_length[sequence];
  const int64_t offset = start * hidden + head * size;
  constexpr float kLog2E = 1.44269504F;
  const T* q = static_cast<const T*>(arguments.qkv) + start * arguments.qkv_stride + head * size;
  float* doutput = workspace + layout.doutput;
  float* output = workspace + layout.dqueries;  // free until the first block of keys
  pack_rows(q, arguments.qkv_stride, length, size, batch.scale * kLog2E, padded, workspace + layout.queries);
  pack_rows(static_cast<const T*>(arguments.dcontext) + offset, hidden, length, size, 1.0F, padded, doutput);
  pack_rows(static_cast<const T*>(arguments.context) + offset, hidden, length, size, 1.0F, padded, output);
  for (int64_t i = 0; i < length; ++i) {
    workspace[layout.logsumexp + i] = arguments.logsumexp[head * batch.rows + start + i] * kLog2E;
    workspace[layout.delta + i] = dot_row(output + i * padded, doutput + i * padded, padded);
  }
}

template <class T, bool kDropout>
void backward_task(const AttentionBackward& arguments, const BackwardLayout& layout, int64_t sequence,
                   int64_t head, float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t hidden = batch.heads * size;
  const int64_t stride = arguments.qkv_stride;
  const int64_t start = batch.sequence_start[sequence];
  const int64_t length = batch.sequence_length[sequence];
  const T* k = static_cast<const T*>(arguments.qkv) + start * stride + hidden + head * size;
  const T* v = k + hidden;
  T* dq = static_cast<T*>(arguments.dqkv) + start * arguments.dqkv_stride + head * size;
  T* dk = dq + hidden;
  T* dv = dk + hidden;
  const float dropout_scale = kDropout ? keep_scale(batch.dropout.p) : 1.0F;
  PhiloxRow counter{};
  if constexpr (kDropout) {
    counter = {philox_key(batch.dropout.seed, *batch.dropout.step, batch.dropout.stream_id), 0,
               static_cast<uint32_t>(batch.sequence_sample[sequence]), static_cast<uint32_t>(head)};
  }
  pack_queries<T>(arguments, layout, sequence, head, workspace);

  for (int64_t first_key = 0; first_key < length; first_key += kBackwardKeys) {
    const int64_t block_keys = std::min(kBackwardKeys, length - first_key);
    pack_transposed(k + first_key * stride, stride, block_keys, size, 1.0F,
                    workspace + layout.keys_transposed);
    pack_transposed(v + first_key * stride, stride, block_keys, size, dropout_scale,
                    workspace + layout.values_transposed);
    pack_rows(k + first_key * stride, stride, block_keys, size, 1.0F, padded, workspace + layout.keys);
    std::fill_n(workspace + layout.dkeys, block_keys * padded, 0.0F);
    std::fill_n(workspace + layout.dvalues, block_keys * padded, 0.0F);
    for (int64_t i = 0; i < length; i += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, length - i);
      const int64_t keys = batch.causal ? std::min(block_keys, i + rows - first_key) : block_keys;
      if (keys > 0) gradient_block<kDropout>(batch, counter, {i, rows, first_key, keys}, layout, workspace);
    }
    // Queries were packed times scale · log2(e): what dK needs more is ln 2.
    constexpr float kLn2 = 0.693147181F;
    const int64_t out = first_key * arguments.dqkv_stride;
    unpack_rows(workspace + layout.dkeys, padded, block_keys, size, kLn2, dk + out, arguments.dqkv_stride);
    unpack_rows(workspace + layout.dvalues, padded, block_keys, size, dropout_scale, dv + out,
                arguments.dqkv_stride);
  }
  unpack_rows(workspace + layout.dqueries, padded, length, size, batch.scale, dq, arguments.dqkv_stride);
}

}  // namespace attention

BackwardTask choose_backward_task(const AttentionBatch& batch) {
  const bool dropout = batch.dropout.p > 0.0F;
  if (batch.dtype == DType::kBF16)
    return dropout ? &attention::backward_task<bfloat16, true> : &attention::backward_task<bfloat16, false>;
  if (batch.dtype == DType::kF16)
    return dropout ? &attention::backward_task<float16, true> : &attention::backward_task<float16, false>;
  return dropout ? &attention::backward_task<float, true> : &attention::backward_task<float, false>;
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
