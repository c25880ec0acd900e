// For tests: attention and its gradient in double precision, as plain as can be, with masks from
// base/philox.h.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/philox.h"
#include "exec/cpu/attention.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu::testing {

// A packed batch that owns its index arrays.
struct AttentionCase {
  AttentionBatch batch;
  std::vector<int32_t> start;
  std::vector<int32_t> length;
  std::vector<int32_t> sample;
  uint32_t step = 3;

  // Sequences of the given lengths with `gap` rows before each and after the last.
  AttentionCase(const std::vector<int32_t>& lengths, int64_t gap, int64_t heads, int64_t head_size,
                bool causal, float p, DType dtype) {
    int64_t row = gap;
    for (const int32_t tokens : lengths) {
      start.push_back(static_cast<int32_t>(row));
      length.push_back(tokens);
      sample.push_back(static_cast<int32_t>(100 + sample.size() * 7));
      row += tokens + gap;
      batch.max_sequence_length = std::max<int64_t>(batch.max_sequence_length, tokens);
    }
    batch.dtype = dtype;
    batch.rows = row;
    batch.heads = heads;
    batch.head_size = head_size;
    batch.sequences = static_cast<int64_t>(lengths.size());
    batch.scale = 1.0F / std::sqrt(static_cast<float>(head_size));
    batch.causal = causal;
    batch.dropout = {p, 0x9876543210ULL, 5, nullptr};
    bind();
  }
  AttentionCase(const AttentionCase&) = delete;
  AttentionCase& operator=(const AttentionCase&) = delete;

  void bind() {
    batch.sequence_start = start.data();
    batch.sequence_length = length.data();
    batch.sequence_sample = sample.data();
    batch.dropout.step = &step;
  }
  int64_t hidden() const { return batch.heads * batch.head_size; }
};

using Doubles = std::vector<double>;

inline double reference_multiplier(const AttentionCase& x, int64_t sequence, int64_t head, int64_t query,
                                   int64_t key) {
  const AttentionDropout& dropout = x.batch.dropout;
  if (dropout.p == 0.0F) return 1.0;
  const auto words = philox4x32_10(philox_key(dropout.seed, *dropout.step, dropout.stream_id),
                                   {static_cast<uint32_t>(key / 8), static_cast<uint32_t>(query),
                                    static_cast<uint32_t>(x.sample[sequence]), static_cast<uint32_t>(head)});
  const uint32_t bits = (words[key % 8 / 2] >> (16 * (key % 2))) & 0xffffU;
  const double threshold = drop_threshold(dropout.p);
  return bits < threshold ? 0.0 : 65536.0 / (65536.0 - threshold);
}

// The normalised probabilities [T, T] of a head before dropout, and the log-sum-exp of each row.
struct ReferenceProbabilities {
  Doubles p;
  Doubles logsumexp;
};
inline ReferenceProbabilities reference_probabilities(const AttentionCase& x, const Doubles& qkv,
                                                      int64_t sequence, int64_t head) {
  const int64_t t = x.length[sequence];
  const int64_t size = x.batch.head_size;
  const int64_t hidden = x.hidden();
  ReferenceProbabilities out{Doubles(t * t), Doubles(t)};
  for (int64_t q = 0; q < t; ++q) {
    const double* query = qkv.data() + (x.start[sequence] + q) * 3 * hidden + head * size;
    const int64_t keys = x.batch.causal ? q + 1 : t;
    double top = -INFINITY;
    for (int64_t k = 0; k < keys; ++k) {
      const double* key = qkv.data() + (x.start[sequence] + k) * 3 * hidden + hidden + head * size;
      double score = 0;
      for (int64_t i = 0; i < size; ++i) score += query[i] * key[i];
      out.p[q * t + k] = score * x.batch.scale;
      top = std::max(top, out.p[q * t + k]);
    }
    double sum = 0;
    for (int64_t k = 0; k < keys; ++k) sum += std::exp(out.p[q * t + k] - top);
    out.logsumexp[q] = top + std::log(sum);
    for (int64_t k = 0; k < keys; ++k) out.p[q * t + k] = std::exp(out.p[q * t + k] - out.logsumexp[q]);
  }
  return out;
}

struct ReferenceForward {
  Doubles context;    // [rows, H]
  Doubles logsumexp;  // [A, rows]
};
inline ReferenceForward reference_forward(const AttentionCase& x, const Doubles& qkv) {
  const int64_t size = x.batch.head_size;
  const int64_t hidden = x.hidden();
  ReferenceForward out{Doubles(x.batch.rows * hidden), Doubles(x.batch.heads * x.batch.rows)};
  for (int64_t s = 0; s < x.batch.sequences; ++s) {
    const int64_t t = x.length[s];
    for (int64_t head = 0; head < x.batch.heads; ++head) {
      const ReferenceProbabilities probabilities = reference_probabilities(x, qkv, s, head);
      for (int64_t q = 0; q < t; ++q) {
        out.logsumexp[head * x.batch.rows + x.start[s] + q] = probabilities.logsumexp[q];
        double* context = out.context.data() + (x.start[s] + q) * hidden + head * size;
        for (int64_t k = 0; k < t; ++k) {
          const double p = probabilities.p[q * t + k] * reference_multiplier(x, s, head, q, k);
          const double* value = qkv.data() + (x.start[s] + k) * 3 * hidden + 2 * hidden + head * size;
          for (int64_t i = 0; i < size; ++i) context[i] += p * value[i];
        }
      }
    }
  }
  return out;
}

// dqkv [rows, 3H]; delta is taken from `context`, as the kernel takes it from what it stored.
inline Doubles reference_backward(const AttentionCase& x, const Doubles& qkv, const Doubles& context,
                                  const Doubles& dcontext) {
  const int64_t size = x.batch.head_size;
  const int64_t hidden = x.hidden();
  const double scale = x.batch.scale;
  Doubles dqkv(x.batch.rows * 3 * hidden);
  for (int64_t s = 0; s < x.batch.sequences; ++s) {
    const int64_t t = x.length[s];
    for (int64_t head = 0; head < x.batch.heads; ++head) {
      const ReferenceProbabilities probabilities = reference_probabilities(x, qkv, s, head);
      for (int64_t q = 0; q < t; ++q) {
        const int64_t row = x.start[s] + q;
        const double* doutput = dcontext.data() + row * hidden + head * size;
        const double* output = context.data() + row * hidden + head * size;
        double delta = 0;
        for (int64_t i = 0; i < size; ++i) delta += doutput[i] * output[i];
        for (int64_t k = 0; k < t; ++k) {
          const int64_t key_row = x.start[s] + k;
          const double p = probabilities.p[q * t + k];
          const double multiplier = reference_multiplier(x, s, head, q, k);
          const int64_t query_at = row * 3 * hidden + head * size;
          const int64_t key_at = key_row * 3 * hidden + hidden + head * size;
          const int64_t value_at = key_at + hidden;
          double dp = 0;
          for (int64_t i = 0; i < size; ++i) dp += doutput[i] * qkv[value_at + i];
          const double dscore = p * (dp * multiplier - delta) * scale;
          for (int64_t i = 0; i < size; ++i) {
            dqkv[value_at + i] += p * multiplier * doutput[i];
            dqkv[query_at + i] += dscore * qkv[key_at + i];
            dqkv[key_at + i] += dscore * qkv[query_at + i];
          }
        }
      }
    }
  }
  return dqkv;
}

// A tensor in storage dtype, kept as bytes, with conversions from and to double.
class Storage {
 public:
  Storage(DType dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(count * dtype_bytes(dtype), 0xff) {}

  static Storage uniform(DType dtype, int64_t count, uint64_t seed) {
    Storage out(dtype, count);
    std::mt19937_64 generator(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (int64_t i = 0; i < count; ++i) out.set(i, uniform(generator));
    return out;
  }

  void* data() { return bytes_.data(); }
  int64_t size() const { return count_; }
  int64_t element_bytes() const { return dtype_bytes(dtype_); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  float at(int64_t i) const {
    float value = 0;
    with_storage(dtype_, [&](auto type) {
      value = read_element(reinterpret_cast<const decltype(type)*>(bytes_.data()) + i);
    });
    return value;
  }
  void set(int64_t i, float value) {
    with_storage(dtype_, [&](auto type) {
      write_element(value, reinterpret_cast<decltype(type)*>(bytes_.data()) + i);
    });
  }
  Doubles doubles() const {
    Doubles out(count_);
    for (int64_t i = 0; i < count_; ++i) out[i] = at(i);
    return out;
  }

 private:
  DType dtype_;
  int64_t count_;
  std::vector<uint8_t> bytes_;
};

// Rounding errors of sums of `terms` products add up like a random walk; then one rounding to the storage
// dtype.
inline void expect_close(const Storage& got, const Doubles& expected, int64_t terms, DType dtype,
                         const char* what) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(expected.size()));
  double greatest = 1.0;
  for (const double value : expected) greatest = std::max(greatest, std::abs(value));
  const double arithmetic = 4 * dtype_epsilon(DType::kF32) * std::sqrt(static_cast<double>(terms)) * greatest;
  const double rounding = dtype == DType::kF32 ? 0.0 : dtype_epsilon(dtype) / 2;
  for (int64_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got.at(i), expected[i], arithmetic + rounding * std::abs(expected[i])) << what << " at " << i;
  }
}

}  // namespace shoehorn::cpu::testing
