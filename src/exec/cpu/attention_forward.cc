#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/philox.h"
#include "exec/cpu/attention_task.h"
#include "exec/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/attention_forward.cc"
#include "hwy/foreach_target.h"
// Highway's order: after foreach_target.h.
#include "exec/cpu/attention_block-inl.h"
#include "exec/cpu/attention_softmax-inl.h"
#include "exec/cpu/philox_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

// The strip of scores of one block of queries, of keys [first_key, first_key + keys): softmax_row on each
// row, and the rows of `output` summed so far rescaled to the new maximum.
template <bool kDropout>
void softmax_strip(const AttentionBatch& batch, PhiloxRow counter, int64_t first_query, int64_t queries,
                   int64_t first_key, int64_t keys, float* strip, int64_t strip_stride, float* maximum,
                   float* sum, float* output, int64_t output_stride) {
  alignas(64) uint8_t keep_bits[philox_keep_bytes(kForwardKeys)];
  const uint32_t threshold = drop_threshold(batch.dropout.p);
  for (int64_t i = 0; i < queries; ++i) {
    float* row = strip + i * strip_stride;
    const int64_t visible = batch.causal ? std::min(keys, first_query + i + 1 - first_key) : keys;
    if constexpr (kDropout) {
      counter.position = static_cast<uint32_t>(first_query + i);
      philox_keep_bits(counter, threshold, first_key, std::max<int64_t>(visible, 0), keep_bits);
    }
    const float rescale = softmax_row<kDropout>(row, keys, visible, keep_bits, maximum[i], sum[i]);
    if (first_key > 0) scale_row(output + i * output_stride, output_stride, rescale);
  }
}

template <class T, bool kDropout>
void forward_task(const AttentionForward& arguments, const ForwardLayout& layout, int64_t sequence,
                  int64_t head, int64_t first_query, float* workspace) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t size = batch.head_size;
  const int64_t padded = padded_head_size(size);
  const int64_t hidden = batch.heads * size;
  const int64_t stride = arguments.qkv_stride;
  const int64_t start = batch.sequence_start[sequence];
  const int64_t length = batch.sequence_length[sequence];
  const int64_t queries = std::min(kForwardQueries, length - first_query);
  const T* q = static_cast<const T*>(arguments.qkv) + start * stride + head * size;
  const T* k = q + hidden;
  const T* v = k + hidden;
  float* packed_queries = workspace + layout.queries;
  float* packed_keys = workspace + layout.keys;
  float* packed_values = workspace + layout.values;
  float* output = workspace + layout.output;
  float* strip = workspace + layout.strip;
  float* maximum = workspace + layout.maximum;
  float* sum = workspace + layout.sum;

  PhiloxRow counter{};
  if constexpr (kDropout) {
    counter = {philox_key(batch.dropout.seed, *batch.dropout.step, batch.dropout.stream_id), 0,
               static_cast<uint32_t>(batch.sequence_sample[sequence]), static_cast<uint32_t>(head)};
  }
  constexpr float kLog2E = 1.44269504F;
  pack_rows(q + first_query * stride, stride, queries, size, batch.scale * kLog2E, padded, packed_queries);
  std::fill(maximum, maximum + queries, -std::numeric_limits<float>::infinity());
  std::fill(sum, sum + queries, 0.0F);

  const int64_t last_key = batch.causal ? first_query + queries : length;
  for (int64_t first_key = 0; first_key < last_key; first_key += kForwardKeys) {
    const int64_t block_keys = std::min(kForwardKeys, last_key - first_key);
    pack_transposed(k + first_key * stride, stride, block_keys, size, 1.0F, packed_keys);
    pack_rows(v + first_key * stride, stride, block_keys, size, 1.0F, padded, packed_values);
    for (int64_t i = 0; i < queries; i += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, queries - i);
      const int64_t keys =
          batch.causal ? std::min(block_keys, first_query + i + rows - first_key) : block_keys;
      if (keys <= 0) continue;
      float* output_rows = output + i * padded;
      multiply({.a = packed_queries + i * padded,
                .a_row = padded,
                .a_step = 1,
                .b = packed_keys,
                .b_step = kPanel,
                .b_panel = size * kPanel,
                .c = strip,
                .c_row = layout.strip_stride,
                .m = rows,
                .n = keys,
                .k = size,
                .accumulate = false});
      softmax_strip<kDropout>(batch, counter, first_query + i, rows, first_key, keys, strip,
                              layout.strip_stride, maximum + i, sum + i, output_rows, padded);
      multiply({.a = strip,
                .a_row = layout.strip_stride,
                .a_step = 1,
                .b = packed_values,
                .b_step = padded,
                .b_panel = kPanel,
                .c = output_rows,
                .c_row = padded,
                .m = rows,
                .n = size,
                .k = keys,
                .accumulate = first_key > 0});
    }
  }

  constexpr float kLn2 = 0.693147181F;
  const float scale = kDropout ? keep_scale(batch.dropout.p) : 1.0F;
  T* context = static_cast<T*>(arguments.context) + (start + first_query) * hidden + head * size;
  float* logsumexp = arguments.logsumexp + head * batch.rows + start + first_query;
  for (int64_t i = 0; i < queries; ++i) {
    unpack_rows(output + i * padded, padded, 1, size, scale / sum[i], context + i * hidden, hidden);
    logsumexp[i] = maximum[i] * kLn2 + std::log(sum[i]);
  }
}

}  // namespace attention

ForwardTask choose_forward_task(const AttentionBatch& batch) {
  const bool dropout = batch.dropout.p > 0.0F;
  if (batch.dtype == DType::kBF16)
    return dropout ? &attention::forward_task<bfloat16, true> : &attention::forward_task<bfloat16, false>;
  if (batch.dtype == DType::kF16)
    return dropout ? &attention::forward_task<float16, true> : &attention::forward_task<float16, false>;
  return dropout ? &attention::forward_task<float, true> : &attention::forward_task<float, false>;
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
