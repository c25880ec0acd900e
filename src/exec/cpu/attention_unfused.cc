#include "exec/cpu/attention_unfused.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

template <class T>
float load(const T* x) {
  return read_element(x);
}
template <class T>
void store(T* x, float value) {
  write_element(value, x);
}

// Calls run(T()) with the storage type of the batch.
template <class Run>
void with_storage_type(const AttentionBatch& batch, const Run& run) {
  check_storage(batch.dtype, "attention");
  with_storage(batch.dtype, run);
}

// Calls work(head, s) for every head and sequence, and clear(head, begin, end) for the holes between and
// around sequences.
template <class Work, class Clear>
void for_each_head(const AttentionBatch& batch, const Work& work, const Clear& clear) {
#pragma omp parallel for schedule(static)
  for (int64_t head = 0; head < batch.heads; ++head) {
    int64_t row = 0;
    for (int64_t s = 0; s < batch.sequences; ++s) {
      clear(head, row, int64_t{batch.sequence_start[s]});
      work(head, s);
      row = batch.sequence_start[s] + int64_t{batch.sequence_length[s]};
    }
    clear(head, row, batch.rows);
  }
}

// Keys that query q of a sequence of `length` tokens sees.
int64_t visible_keys(const AttentionBatch& batch, int64_t q, int64_t length) {
  return batch.causal ? q + 1 : length;
}

float* score_row(const AttentionBatch& batch, float* scores, int64_t head, int64_t row) {
  return scores + (head * batch.rows + row) * batch.max_sequence_length;
}
const float* score_row(const AttentionBatch& batch, const float* scores, int64_t head, int64_t row) {
  return scores + (head * batch.rows + row) * batch.max_sequence_length;
}

// Fills rows of scores of a head.
auto fill_score_rows(const AttentionBatch& batch, float* scores, float value) {
  return [=, &batch](int64_t head, int64_t begin, int64_t end) {
    std::fill(score_row(batch, scores, head, begin), score_row(batch, scores, head, end), value);
  };
}

// Zeros columns [column + head · D, … + D) of rows of a matrix.
template <class T>
auto zero_columns(const AttentionBatch& batch, T* x, int64_t stride, int64_t column) {
  return [=, &batch](int64_t head, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::fill_n(x + row * stride + column + head * batch.head_size, batch.head_size, T{});
    }
  };
}

template <class T>
float dot(const T* x, const T* y, int64_t count) {
  float sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) sum += load(x + i) * load(y + i);
  return sum;
}

// out[i] = Σ over j < count of weight(j) · rows[j * stride + i]: one element after another, so that sums stay
// in f32 whatever the storage dtype.
template <class T, class Weight>
void weighted_sum(const T* rows, int64_t stride, int64_t first, int64_t count, int64_t columns,
                  const Weight& weight, T* out) {
  for (int64_t i = 0; i < columns; ++i) {
    float sum = 0.0F;
    for (int64_t j = first; j < count; ++j) sum += weight(j) * load(rows + j * stride + i);
    store(out + i, sum);
  }
}

}  // namespace

void attention_scores(const AttentionBatch& batch, const void* q, const void* k, int64_t stride,
                      float* scores) {
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    const auto work = [&](int64_t head, int64_t s) {
      const int64_t start = batch.sequence_start[s];
      const int64_t length = batch.sequence_length[s];
      const T* queries = static_cast<const T*>(q) + start * stride + head * batch.head_size;
      const T* keys = static_cast<const T*>(k) + start * stride + head * batch.head_size;
      for (int64_t i = 0; i < length; ++i) {
        float* row = score_row(batch, scores, head, start + i);
        const int64_t visible = visible_keys(batch, i, length);
        for (int64_t j = 0; j < visible; ++j) {
          row[j] = batch.scale * dot(queries + i * stride, keys + j * stride, batch.head_size);
        }
        std::fill(row + visible, row + batch.max_sequence_length, kMasked);
      }
    };
    for_each_head(batch, work, fill_score_rows(batch, scores, kMasked));
  });
}

void attention_scores_backward(const AttentionBatch& batch, const float* dscores, const void* q,
                               const void* k, int64_t stride, void* dq, void* dk) {
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    T* dq_columns = static_cast<T*>(dq);
    T* dk_columns = static_cast<T*>(dk);
    const auto work = [&](int64_t head, int64_t s) {
      const int64_t start = batch.sequence_start[s];
      const int64_t length = batch.sequence_length[s];
      const T* queries = static_cast<const T*>(q) + start * stride + head * batch.head_size;
      const T* keys = static_cast<const T*>(k) + start * stride + head * batch.head_size;
      const auto dscore = [&](int64_t query, int64_t key) {
        return batch.scale * score_row(batch, dscores, head, start + query)[key];
      };
      for (int64_t i = 0; i < length; ++i) {
        const int64_t out = (start + i) * stride + head * batch.head_size;
        weighted_sum(
            keys, stride, 0, visible_keys(batch, i, length), batch.head_size,
            [&](int64_t key) { return dscore(i, key); }, dq_columns + out);
        weighted_sum(
            queries, stride, batch.causal ? i : 0, length, batch.head_size,
            [&](int64_t query) { return dscore(query, i); }, dk_columns + out);
      }
    };
    const auto clear_dq = zero_columns(batch, dq_columns, stride, 0);
    const auto clear_dk = zero_columns(batch, dk_columns, stride, 0);
    for_each_head(batch, work, [&](int64_t head, int64_t begin, int64_t end) {
      clear_dq(head, begin, end);
      clear_dk(head, begin, end);
    });
  });
}

void attention_softmax(const AttentionBatch& batch, const float* scores, float* probabilities) {
  const auto work = [&](int64_t head, int64_t s) {
    const int64_t start = batch.sequence_start[s];
    const int64_t length = batch.sequence_length[s];
    for (int64_t q = 0; q < length; ++q) {
      const float* in = score_row(batch, scores, head, start + q);
      float* out = score_row(batch, probabilities, head, start + q);
      const int64_t visible = visible_keys(batch, q, length);
      const float maximum = *std::max_element(in, in + visible);
      float sum = 0.0F;
      for (int64_t k = 0; k < visible; ++k) {
        out[k] = std::exp(in[k] - maximum);
        sum += out[k];
      }
      for (int64_t k = 0; k < visible; ++k) out[k] /= sum;
      std::fill(out + visible, out + batch.max_sequence_length, 0.0F);
    }
  };
  for_each_head(batch, work, fill_score_rows(batch, probabilities, 0.0F));
}

void attention_softmax_backward(const AttentionBatch& batch, const float* dprobabilities,
                                const float* probabilities, float* dscores) {
  const auto work = [&](int64_t head, int64_t s) {
    const int64_t start = batch.sequence_start[s];
    const int64_t length = batch.sequence_length[s];
    for (int64_t q = 0; q < length; ++q) {
      const float* dp = score_row(batch, dprobabilities, head, start + q);
      const float* p = score_row(batch, probabilities, head, start + q);
      float* out = score_row(batch, dscores, head, start + q);
      const int64_t visible = visible_keys(batch, q, length);
      const float delta = dot(dp, p, visible);
      for (int64_t k = 0; k < visible; ++k) out[k] = p[k] * (dp[k] - delta);
      std::fill(out + visible, out + batch.max_sequence_length, 0.0F);
    }
  };
  for_each_head(batch, work, fill_score_rows(batch, dscores, 0.0F));
}

void attention_dropout(const AttentionBatch& batch, const float* probabilities, float* dropped) {
  const AttentionDropout& dropout = batch.dropout;
  const uint32_t threshold = drop_threshold(dropout.p);
  const float scale = keep_scale(dropout.p);
  const auto work = [&](int64_t head, int64_t s) {
    const int64_t start = batch.sequence_start[s];
    const int64_t length = batch.sequence_length[s];
    for (int64_t q = 0; q < length; ++q) {
      const float* in = score_row(batch, probabilities, head, start + q);
      float* out = score_row(batch, dropped, head, start + q);
      if (threshold == 0) {
        std::copy(in, in + batch.max_sequence_length, out);
        continue;
      }
      const PhiloxKey key = philox_key(dropout.seed, *dropout.step, dropout.stream_id);
      for (int64_t block = 0; block * 8 < length; ++block) {
        const auto words = philox4x32_10(
            key, {static_cast<uint32_t>(block), static_cast<uint32_t>(q),
                  static_cast<uint32_t>(batch.sequence_sample[s]), static_cast<uint32_t>(head)});
        for (int64_t k = block * 8; k < std::min(block * 8 + 8, length); ++k) {
          const uint32_t bits = (words[k % 8 / 2] >> (16 * (k % 2))) & 0xffffU;
          out[k] = bits < threshold ? 0.0F : in[k] * scale;
        }
      }
      std::fill(out + length, out + batch.max_sequence_length, 0.0F);
    }
  };
  for_each_head(batch, work, fill_score_rows(batch, dropped, 0.0F));
}

void attention_context(const AttentionBatch& batch, const float* probabilities, const void* v, int64_t stride,
                       void* context) {
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    const int64_t hidden = batch.heads * batch.head_size;
    const auto work = [&](int64_t head, int64_t s) {
      const int64_t start = batch.sequence_start[s];
      const int64_t length = batch.sequence_length[s];
      const T* values = static_cast<const T*>(v) + start * stride + head * batch.head_size;
      for (int64_t q = 0; q < length; ++q) {
        const float* p = score_row(batch, probabilities, head, start + q);
        weighted_sum(
            values, stride, 0, visible_keys(batch, q, length), batch.head_size,
            [&](int64_t k) { return p[k]; },
            static_cast<T*>(context) + (start + q) * hidden + head * batch.head_size);
      }
    };
    for_each_head(batch, work, zero_columns(batch, static_cast<T*>(context), hidden, 0));
  });
}

void attention_context_backward(const AttentionBatch& batch, const void* dcontext, const float* probabilities,
                                const void* v, int64_t stride, float* dprobabilities, void* dv) {
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    const int64_t hidden = batch.heads * batch.head_size;
    T* dv_columns = static_cast<T*>(dv);
    const auto work = [&](int64_t head, int64_t s) {
      const int64_t start = batch.sequence_start[s];
      const int64_t length = batch.sequence_length[s];
      const T* values = static_cast<const T*>(v) + start * stride + head * batch.head_size;
      const T* doutput = static_cast<const T*>(dcontext) + start * hidden + head * batch.head_size;
      for (int64_t i = 0; i < length; ++i) {
        float* dp = score_row(batch, dprobabilities, head, start + i);
        const int64_t visible = visible_keys(batch, i, length);
        for (int64_t k = 0; k < visible; ++k) {
          dp[k] = dot(doutput + i * hidden, values + k * stride, batch.head_size);
        }
        std::fill(dp + visible, dp + batch.max_sequence_length, 0.0F);
        weighted_sum(
            doutput, hidden, batch.causal ? i : 0, length, batch.head_size,
            [&](int64_t q) { return score_row(batch, probabilities, head, start + q)[i]; },
            dv_columns + (start + i) * stride + head * batch.head_size);
      }
    };
    const auto clear_scores = fill_score_rows(batch, dprobabilities, 0.0F);
    const auto clear_dv = zero_columns(batch, dv_columns, stride, 0);
    for_each_head(batch, work, [&](int64_t head, int64_t begin, int64_t end) {
      clear_scores(head, begin, end);
      clear_dv(head, begin, end);
    });
  });
}

}  // namespace shoehorn::cpu
