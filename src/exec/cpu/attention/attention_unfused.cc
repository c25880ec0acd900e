#include "exec/cpu/attention/attention_unfused.h"

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

// A sequence as one head sees it.
struct Sequence {
  int64_t index;
  int64_t first_query_row;
  int64_t queries;
  int64_t first_key_row;
  int64_t keys;
};

// Calls work(head, sequence) for every head and sequence, the heads of a group one after another on one thread.
template <class Work>
void for_each_head(const AttentionBatch& batch, const Work& work) {
#pragma omp parallel for schedule(static)
  for (int64_t group = 0; group < batch.key_value_heads; ++group) {
    for (int64_t head = group * batch.group(); head < (group + 1) * batch.group(); ++head) {
      for (int64_t s = 0; s < batch.sequences; ++s) {
        work(head, Sequence{s, batch.query_start[s], batch.query_length[s], batch.key_start[s],
                            batch.key_length[s]});
      }
    }
  }
}

// Calls clear(begin, end) for the rows between and around sequences.
template <class Clear>
void for_each_hole(const int32_t* starts, const int32_t* lengths, int64_t sequences, int64_t rows,
                   const Clear& clear) {
  int64_t row = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    clear(row, int64_t{starts[s]});
    row = starts[s] + int64_t{lengths[s]};
  }
  clear(row, rows);
}
template <class Clear>
void for_each_query_hole(const AttentionBatch& batch, const Clear& clear) {
  for_each_hole(batch.query_start, batch.query_length, batch.sequences, batch.query_rows, clear);
}
template <class Clear>
void for_each_key_hole(const AttentionBatch& batch, const Clear& clear) {
  for_each_hole(batch.key_start, batch.key_length, batch.sequences, batch.key_rows, clear);
}

RowRange visible(const AttentionBatch& batch, const Sequence& sequence, int64_t query) {
  return visible_keys(batch.mask, query, sequence.queries, sequence.keys);
}
RowRange seeing(const AttentionBatch& batch, const Sequence& sequence, int64_t key) {
  return seeing_queries(batch.mask, key, sequence.queries, sequence.keys);
}

template <class Float>
Float* score_row(const AttentionBatch& batch, Float* scores, int64_t head, int64_t row) {
  return scores + (head * batch.query_rows + row) * batch.max_key_length;
}

// Fills the rows of scores that lie in holes.
void fill_holes(const AttentionBatch& batch, float* scores, float value) {
  for_each_query_hole(batch, [&](int64_t begin, int64_t end) {
    for (int64_t head = 0; head < batch.heads; ++head)
      std::fill(score_row(batch, scores, head, begin), score_row(batch, scores, head, end), value);
  });
}

// Fills what a query does not see of its row of scores.
void fill_hidden(const AttentionBatch& batch, RowRange seen, float value, float* row) {
  std::fill(row, row + seen.begin, value);
  std::fill(row + seen.end, row + batch.max_key_length, value);
}

// Zeros the first `columns` of rows of a matrix.
template <class T>
auto zero_columns(T* x, int64_t stride, int64_t columns) {
  return [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) std::fill_n(x + row * stride, columns, T{});
  };
}

// Head `head` of row `row`.
template <class T>
const T* head_row(const AttentionBatch& batch, const ConstHeadRows& x, int64_t row, int64_t head) {
  return static_cast<const T*>(x.data) + row * x.stride + head * batch.head_size;
}
template <class T>
T* head_row(const AttentionBatch& batch, const HeadRows& x, int64_t row, int64_t head) {
  return static_cast<T*>(x.data) + row * x.stride + head * batch.head_size;
}

template <class T>
float dot(const T* x, const T* y, int64_t count) {
  float sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) sum += load(x + i) * load(y + i);
  return sum;
}

// out[i] = Σ over j in range of weight(j) · rows[j * stride + i], element by element, so that sums stay in
// f32 for every storage dtype.
template <class T, class Weight>
void weighted_sum(const T* rows, int64_t stride, RowRange range, int64_t columns, const Weight& weight,
                  T* out) {
  for (int64_t i = 0; i < columns; ++i) {
    float sum = 0.0F;
    for (int64_t j = range.begin; j < range.end; ++j) sum += weight(j) * load(rows + j * stride + i);
    store(out + i, sum);
  }
}

// The gradient of a key or value: such a sum over the queries that see it, for every head of a group in turn.
// The weight is weight(head, query); `rows` belong to the group's first head.
template <class T, class Weight>
void sum_over_group(const AttentionBatch& batch, const T* rows, int64_t stride, int64_t first_head,
                    RowRange queries, const Weight& weight, T* out) {
  for (int64_t i = 0; i < batch.head_size; ++i) {
    float sum = 0.0F;
    for (int64_t member = 0; member < batch.group(); ++member) {
      const T* column = rows + member * batch.head_size + i;
      for (int64_t j = queries.begin; j < queries.end; ++j)
        sum += weight(first_head + member, j) * load(column + j * stride);
    }
    store(out + i, sum);
  }
}

// Row `head` of a table by distance, from that of a query to key 0 on; null for null.
template <class Float>
Float* bias_row(const AttentionBatch& batch, Float* bias, const Sequence& sequence, int64_t head,
                int64_t query) {
  if (bias == nullptr) return nullptr;
  return bias + head * batch.bias_columns() + batch.max_key_length - 1 -
         (query + sequence.keys - sequence.queries);
}

}  // namespace

void attention_scores(const AttentionBatch& batch, const ConstHeadRows& q, const ConstHeadRows& k,
                      float* scores) {
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
      const T* keys = head_row<T>(batch, k, sequence.first_key_row, head / batch.group());
      for (int64_t i = 0; i < sequence.queries; ++i) {
        const T* query = head_row<T>(batch, q, sequence.first_query_row + i, head);
        const float* bias = bias_row(batch, batch.has_bias ? batch.bias : nullptr, sequence, head, i);
        float* row = score_row(batch, scores, head, sequence.first_query_row + i);
        const RowRange seen = visible(batch, sequence, i);
        for (int64_t j = seen.begin; j < seen.end; ++j) {
          row[j] = batch.scale * dot(query, keys + j * k.stride, batch.head_size);
          if (bias != nullptr) row[j] += bias[j];
        }
        fill_hidden(batch, seen, kMasked, row);
      }
    });
    fill_holes(batch, scores, kMasked);
  });
}

void attention_scores_backward(const AttentionBatch& batch, const float* dscores, const ConstHeadRows& q,
                               const ConstHeadRows& k, const HeadRows& dq, const HeadRows& dk, float* dbias) {
  if (batch.trains_bias) std::fill_n(dbias, batch.heads * batch.bias_columns(), 0.0F);
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
      const int64_t group = head / batch.group();
      const T* keys = head_row<T>(batch, k, sequence.first_key_row, group);
      const T* queries = head_row<T>(batch, q, sequence.first_query_row, head);
      const auto dscore_row = [&](int64_t of_head, int64_t query) {
        return score_row(batch, dscores, of_head, sequence.first_query_row + query);
      };
      for (int64_t i = 0; i < sequence.queries; ++i) {
        const float* row = dscore_row(head, i);
        const RowRange seen = visible(batch, sequence, i);
        weighted_sum(
            keys, k.stride, seen, batch.head_size, [&](int64_t key) { return batch.scale * row[key]; },
            head_row<T>(batch, dq, sequence.first_query_row + i, head));
        float* bias = bias_row(batch, batch.trains_bias ? dbias : nullptr, sequence, head, i);
        if (bias != nullptr) {
          for (int64_t j = seen.begin; j < seen.end; ++j) bias[j] += row[j];
        }
      }
      if (head % batch.group() != 0) return;
      for (int64_t j = 0; j < sequence.keys; ++j) {
        sum_over_group(
            batch, queries, q.stride, head, seeing(batch, sequence, j),
            [&](int64_t of_head, int64_t query) { return batch.scale * dscore_row(of_head, query)[j]; },
            head_row<T>(batch, dk, sequence.first_key_row + j, group));
      }
    });
    for_each_query_hole(batch, zero_columns(static_cast<T*>(dq.data), dq.stride, batch.query_columns()));
    for_each_key_hole(batch, zero_columns(static_cast<T*>(dk.data), dk.stride, batch.key_columns()));
  });
}

void attention_softmax(const AttentionBatch& batch, const float* scores, float* probabilities) {
  for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
    for (int64_t q = 0; q < sequence.queries; ++q) {
      const float* in = score_row(batch, scores, head, sequence.first_query_row + q);
      float* out = score_row(batch, probabilities, head, sequence.first_query_row + q);
      const RowRange seen = visible(batch, sequence, q);
      if (!seen.empty()) {
        const float maximum = *std::max_element(in + seen.begin, in + seen.end);
        float sum = 0.0F;
        for (int64_t k = seen.begin; k < seen.end; ++k) {
          out[k] = std::exp(in[k] - maximum);
          sum += out[k];
        }
        for (int64_t k = seen.begin; k < seen.end; ++k) out[k] /= sum;
      }
      fill_hidden(batch, seen, 0.0F, out);
    }
  });
  fill_holes(batch, probabilities, 0.0F);
}

void attention_softmax_backward(const AttentionBatch& batch, const float* dprobabilities,
                                const float* probabilities, float* dscores) {
  for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
    for (int64_t q = 0; q < sequence.queries; ++q) {
      const float* dp = score_row(batch, dprobabilities, head, sequence.first_query_row + q);
      const float* p = score_row(batch, probabilities, head, sequence.first_query_row + q);
      float* out = score_row(batch, dscores, head, sequence.first_query_row + q);
      const RowRange seen = visible(batch, sequence, q);
      const float delta = dot(dp + seen.begin, p + seen.begin, seen.end - seen.begin);
      for (int64_t k = seen.begin; k < seen.end; ++k) out[k] = p[k] * (dp[k] - delta);
      fill_hidden(batch, seen, 0.0F, out);
    }
  });
  fill_holes(batch, dscores, 0.0F);
}

void attention_dropout(const AttentionBatch& batch, const float* probabilities, float* dropped) {
  const AttentionDropout& dropout = batch.dropout;
  const uint32_t threshold = drop_threshold(dropout.p);
  const float scale = keep_scale(dropout.p);
  for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
    for (int64_t q = 0; q < sequence.queries; ++q) {
      const float* in = score_row(batch, probabilities, head, sequence.first_query_row + q);
      float* out = score_row(batch, dropped, head, sequence.first_query_row + q);
      if (threshold == 0) {
        std::copy(in, in + batch.max_key_length, out);
        continue;
      }
      const PhiloxKey key = philox_key(dropout.seed, *dropout.step, dropout.stream_id);
      for (int64_t block = 0; block * 8 < sequence.keys; ++block) {
        const auto words = philox4x32_10(
            key, {static_cast<uint32_t>(block), static_cast<uint32_t>(q),
                  static_cast<uint32_t>(batch.sequence_sample[sequence.index]), static_cast<uint32_t>(head)});
        for (int64_t k = block * 8; k < std::min(block * 8 + 8, sequence.keys); ++k) {
          const uint32_t bits = (words[k % 8 / 2] >> (16 * (k % 2))) & 0xffffU;
          out[k] = bits < threshold ? 0.0F : in[k] * scale;
        }
      }
      std::fill(out + sequence.keys, out + batch.max_key_length, 0.0F);
    }
  });
  fill_holes(batch, dropped, 0.0F);
}

void attention_context(const AttentionBatch& batch, const float* probabilities, const ConstHeadRows& v,
                       void* context) {
  const HeadRows out{context, batch.query_columns()};
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
      const T* values = head_row<T>(batch, v, sequence.first_key_row, head / batch.group());
      for (int64_t q = 0; q < sequence.queries; ++q) {
        const float* p = score_row(batch, probabilities, head, sequence.first_query_row + q);
        weighted_sum(
            values, v.stride, visible(batch, sequence, q), batch.head_size, [&](int64_t k) { return p[k]; },
            head_row<T>(batch, out, sequence.first_query_row + q, head));
      }
    });
    for_each_query_hole(batch, zero_columns(static_cast<T*>(context), out.stride, out.stride));
  });
}

void attention_context_backward(const AttentionBatch& batch, const void* dcontext, const float* probabilities,
                                const ConstHeadRows& v, float* dprobabilities, const HeadRows& dv) {
  const ConstHeadRows gradient{dcontext, batch.query_columns()};
  with_storage_type(batch, [&](auto type) {
    using T = decltype(type);
    for_each_head(batch, [&](int64_t head, const Sequence& sequence) {
      const int64_t group = head / batch.group();
      const T* values = head_row<T>(batch, v, sequence.first_key_row, group);
      const T* doutput = head_row<T>(batch, gradient, sequence.first_query_row, head);
      for (int64_t i = 0; i < sequence.queries; ++i) {
        float* dp = score_row(batch, dprobabilities, head, sequence.first_query_row + i);
        const RowRange seen = visible(batch, sequence, i);
        for (int64_t k = seen.begin; k < seen.end; ++k)
          dp[k] = dot(doutput + i * gradient.stride, values + k * v.stride, batch.head_size);
        fill_hidden(batch, seen, 0.0F, dp);
      }
      if (head % batch.group() != 0) return;
      for (int64_t j = 0; j < sequence.keys; ++j) {
        sum_over_group(
            batch, doutput, gradient.stride, head, seeing(batch, sequence, j),
            [&](int64_t of_head, int64_t q) {
              return score_row(batch, probabilities, of_head, sequence.first_query_row + q)[j];
            },
            head_row<T>(batch, dv, sequence.first_key_row + j, group));
      }
    });
    fill_holes(batch, dprobabilities, 0.0F);
    for_each_key_hole(batch, zero_columns(static_cast<T*>(dv.data), dv.stride, batch.key_columns()));
  });
}

}  // namespace shoehorn::cpu
