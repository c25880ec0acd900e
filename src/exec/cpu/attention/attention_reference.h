// For tests: attention and its gradient in double precision, as simple as possible, with masks from
// base/philox.h. Matrices are dense here, one each for q, k and v.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "exec/cpu/attention/attention.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu::test_support {

// The sizes and options of a batch.
struct AttentionShape {
  std::vector<int32_t> lengths = {};      // query lengths
  std::vector<int32_t> key_lengths = {};  // empty: keys have the queries' rows
  int64_t gap = 0;                        // rows before each sequence and after the last
  int64_t heads = 1;
  int64_t key_value_heads = 0;  // 0: as many as heads
  int64_t head_size = 1;
  AttentionMask mask = {};
  float p = 0;
  DType dtype = DType::kF32;
  bool has_bias = false;
};

inline std::string mask_name(const AttentionMask& mask) {
  if (mask.kind == AttentionMask::Kind::kWindow) return "window " + std::to_string(mask.window);
  return mask.kind == AttentionMask::Kind::kFull ? "full" : "causal";
}

// A packed batch that owns its index arrays. The test owns its bias.
struct AttentionCase {
  AttentionBatch batch;
  std::vector<int32_t> start;
  std::vector<int32_t> length;
  std::vector<int32_t> key_start;
  std::vector<int32_t> key_length;
  std::vector<int32_t> sample;
  uint32_t step = 3;

  explicit AttentionCase(const AttentionShape& shape) {
    batch.query_rows = place(shape.lengths, shape.gap, start, length, batch.max_query_length);
    // The keys' rows begin elsewhere than the queries'.
    batch.key_rows =
        shape.key_lengths.empty()
            ? place(shape.lengths, shape.gap, key_start, key_length, batch.max_key_length)
            : place(shape.key_lengths, shape.gap + 1, key_start, key_length, batch.max_key_length);
    for (size_t s = 0; s < start.size(); ++s) sample.push_back(static_cast<int32_t>(100 + s * 7));
    batch.dtype = shape.dtype;
    batch.heads = shape.heads;
    batch.key_value_heads = shape.key_value_heads == 0 ? shape.heads : shape.key_value_heads;
    batch.head_size = shape.head_size;
    batch.sequences = static_cast<int64_t>(start.size());
    batch.max_sequences = batch.sequences;
    batch.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
    batch.mask = shape.mask;
    batch.has_bias = batch.trains_bias = shape.has_bias;
    batch.dropout = {shape.p, 0x9876543210ULL, 5, nullptr};
    bind();
  }
  AttentionCase(const AttentionCase&) = delete;
  AttentionCase& operator=(const AttentionCase&) = delete;

  void bind() {
    batch.query_start = start.data();
    batch.query_length = length.data();
    batch.key_start = key_start.data();
    batch.key_length = key_length.data();
    batch.sequence_sample = sample.data();
    batch.dropout.step = &step;
  }
  int64_t bias_elements() const { return batch.has_bias ? batch.heads * batch.bias_columns() : 0; }

 private:
  static int64_t place(const std::vector<int32_t>& lengths, int64_t gap, std::vector<int32_t>& starts,
                       std::vector<int32_t>& kept, int64_t& longest) {
    int64_t row = gap;
    for (const int32_t tokens : lengths) {
      starts.push_back(static_cast<int32_t>(row));
      row += tokens + gap;
      longest = std::max<int64_t>(longest, tokens);
    }
    kept = lengths;
    return row;
  }
};

using Doubles = std::vector<double>;

// q [query_rows, A · D], k and v [key_rows, K · D], bias [A, Tq + Tk - 1] or empty; or their gradients.
struct ReferenceOperands {
  Doubles q;
  Doubles k;
  Doubles v;
  Doubles bias;
};

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

// One head of one sequence: finds its (query, key) pairs in the matrices.
struct ReferenceHead {
  ReferenceHead(const AttentionCase& x, int64_t sequence, int64_t head)
      : x(x), sequence(sequence), head(head), queries(x.length[sequence]), keys(x.key_length[sequence]) {}

  const AttentionCase& x;
  int64_t sequence;
  int64_t head;
  int64_t queries;
  int64_t keys;

  int64_t query_row(int64_t query) const { return x.start[sequence] + query; }
  int64_t query_at(int64_t query) const {
    return (query_row(query) * x.batch.heads + head) * x.batch.head_size;
  }
  int64_t key_at(int64_t key) const {
    const int64_t group = head / (x.batch.heads / x.batch.key_value_heads);
    return ((x.key_start[sequence] + key) * x.batch.key_value_heads + group) * x.batch.head_size;
  }
  int64_t place(int64_t query) const { return query + keys - queries; }
  int64_t bias_at(int64_t query, int64_t key) const {
    return head * (x.batch.max_query_length + x.batch.max_key_length - 1) + key - place(query) +
           x.batch.max_key_length - 1;
  }
  bool sees(int64_t query, int64_t key) const {
    const AttentionMask& mask = x.batch.mask;
    if (mask.kind == AttentionMask::Kind::kFull) return true;
    if (key > place(query)) return false;
    return mask.kind == AttentionMask::Kind::kCausal || key > place(query) - mask.window;
  }
};

// The normalised probabilities [queries, keys] of a head before dropout, and each row's log-sum-exp. Both are
// zero for a query that sees no key.
struct ReferenceProbabilities {
  Doubles p;
  Doubles logsumexp;
};
inline ReferenceProbabilities reference_probabilities(const ReferenceHead& head,
                                                      const ReferenceOperands& in) {
  const AttentionBatch& batch = head.x.batch;
  ReferenceProbabilities out{Doubles(head.queries * head.keys), Doubles(head.queries)};
  for (int64_t q = 0; q < head.queries; ++q) {
    double top = -INFINITY;
    double* row = out.p.data() + q * head.keys;
    for (int64_t k = 0; k < head.keys; ++k) {
      row[k] = -INFINITY;
      if (!head.sees(q, k)) continue;
      double score = 0;
      for (int64_t i = 0; i < batch.head_size; ++i)
        score += in.q[head.query_at(q) + i] * in.k[head.key_at(k) + i];
      row[k] = score * batch.scale + (batch.has_bias ? in.bias[head.bias_at(q, k)] : 0);
      top = std::max(top, row[k]);
    }
    double sum = 0;
    for (int64_t k = 0; k < head.keys; ++k) sum += head.sees(q, k) ? std::exp(row[k] - top) : 0;
    out.logsumexp[q] = sum > 0 ? top + std::log(sum) : 0;
    for (int64_t k = 0; k < head.keys; ++k)
      row[k] = head.sees(q, k) ? std::exp(row[k] - out.logsumexp[q]) : 0;
  }
  return out;
}

struct ReferenceForward {
  Doubles context;    // [query_rows, A · D]
  Doubles logsumexp;  // [A, query_rows]
  Doubles magnitude;  // of the context: the sums of the absolute values of its terms
};
inline ReferenceForward reference_forward(const AttentionCase& x, const ReferenceOperands& in) {
  const AttentionBatch& batch = x.batch;
  ReferenceForward out{Doubles(batch.query_rows * batch.query_columns()),
                       Doubles(batch.heads * batch.query_rows),
                       Doubles(batch.query_rows * batch.query_columns())};
  for (int64_t s = 0; s < batch.sequences; ++s) {
    for (int64_t a = 0; a < batch.heads; ++a) {
      const ReferenceHead head(x, s, a);
      const ReferenceProbabilities probabilities = reference_probabilities(head, in);
      for (int64_t q = 0; q < head.queries; ++q) {
        out.logsumexp[a * batch.query_rows + head.query_row(q)] = probabilities.logsumexp[q];
        for (int64_t k = 0; k < head.keys; ++k) {
          const double p = probabilities.p[q * head.keys + k] * reference_multiplier(x, s, a, q, k);
          for (int64_t i = 0; i < batch.head_size; ++i) {
            const double term = p * in.v[head.key_at(k) + i];
            out.context[head.query_at(q) + i] += term;
            out.magnitude[head.query_at(q) + i] += std::abs(term);
          }
        }
      }
    }
  }
  return out;
}

// delta is computed from `context`, as the kernel computes it from what it stored. `magnitudes`: the sums of the absolute
// values of the gradients' terms.
inline ReferenceOperands reference_backward(const AttentionCase& x, const ReferenceOperands& in,
                                            const Doubles& context, const Doubles& dcontext,
                                            ReferenceOperands* magnitudes = nullptr) {
  const AttentionBatch& batch = x.batch;
  ReferenceOperands out{Doubles(in.q.size()), Doubles(in.k.size()), Doubles(in.v.size()),
                        Doubles(in.bias.size())};
  ReferenceOperands absolute = out;
  const auto add = [&](Doubles ReferenceOperands::* part, int64_t at, double term) {
    (out.*part)[at] += term;
    (absolute.*part)[at] += std::abs(term);
  };
  for (int64_t s = 0; s < batch.sequences; ++s) {
    for (int64_t a = 0; a < batch.heads; ++a) {
      const ReferenceHead head(x, s, a);
      const ReferenceProbabilities probabilities = reference_probabilities(head, in);
      for (int64_t q = 0; q < head.queries; ++q) {
        const int64_t query = head.query_at(q);
        double delta = 0;
        for (int64_t i = 0; i < batch.head_size; ++i) delta += dcontext[query + i] * context[query + i];
        for (int64_t k = 0; k < head.keys; ++k) {
          if (!head.sees(q, k)) continue;
          const int64_t key = head.key_at(k);
          const double p = probabilities.p[q * head.keys + k];
          const double multiplier = reference_multiplier(x, s, a, q, k);
          double dp = 0;
          for (int64_t i = 0; i < batch.head_size; ++i) dp += dcontext[query + i] * in.v[key + i];
          const double dscore = p * (dp * multiplier - delta);
          if (batch.has_bias) add(&ReferenceOperands::bias, head.bias_at(q, k), dscore);
          for (int64_t i = 0; i < batch.head_size; ++i) {
            add(&ReferenceOperands::v, key + i, p * multiplier * dcontext[query + i]);
            add(&ReferenceOperands::q, query + i, dscore * batch.scale * in.k[key + i]);
            add(&ReferenceOperands::k, key + i, dscore * batch.scale * in.q[query + i]);
          }
        }
      }
    }
  }
  if (magnitudes != nullptr) *magnitudes = std::move(absolute);
  return out;
}

// A tensor of a storage dtype, kept as bytes, with conversions from and to double.
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

// Q, K, V and the bias of a case, or their gradients.
struct Operands {
  Storage q;
  Storage k;
  Storage v;
  Storage bias;

  static Operands uniform(const AttentionCase& x, uint64_t seed) {
    const AttentionBatch& batch = x.batch;
    const auto made = [&](int64_t rows, int64_t columns) {
      return Storage::uniform(batch.dtype, rows * columns, seed++);
    };
    Storage q = made(batch.query_rows, batch.query_columns());
    Storage k = made(batch.key_rows, batch.key_columns());
    Storage v = made(batch.key_rows, batch.key_columns());
    return {std::move(q), std::move(k), std::move(v), Storage::uniform(DType::kF32, x.bias_elements(), seed)};
  }
  // Filled with NaN bytes.
  static Operands empty(const AttentionCase& x) {
    const AttentionBatch& batch = x.batch;
    return {Storage(batch.dtype, batch.query_rows * batch.query_columns()),
            Storage(batch.dtype, batch.key_rows * batch.key_columns()),
            Storage(batch.dtype, batch.key_rows * batch.key_columns()),
            Storage(DType::kF32, x.bias_elements())};
  }
  ReferenceOperands doubles() const { return {q.doubles(), k.doubles(), v.doubles(), bias.doubles()}; }
};

// Rounding errors of sums of `terms` products add up like a random walk; then one rounding to the storage
// dtype. `magnitude`, if given: one factor of each term was rounded to that dtype before it was added up.
inline void expect_close(const Storage& got, const Doubles& expected, int64_t terms, DType dtype,
                         const char* what, const Doubles* magnitude = nullptr) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(expected.size()));
  double greatest = 1.0;
  for (const double value : expected) greatest = std::max(greatest, std::abs(value));
  const double arithmetic = 4 * dtype_epsilon(DType::kF32) * std::sqrt(static_cast<double>(terms)) * greatest;
  const double rounding = dtype == DType::kF32 ? 0.0 : dtype_epsilon(dtype) / 2;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double rounded = std::abs(expected[i]) + (magnitude == nullptr ? 0.0 : (*magnitude)[i]);
    ASSERT_NEAR(got.at(i), expected[i], arithmetic + rounding * rounded) << what << " at " << i;
  }
}

inline void expect_close(const Operands& got, const ReferenceOperands& expected, int64_t terms, DType dtype,
                         const ReferenceOperands* magnitudes = nullptr) {
  const bool is_given = magnitudes != nullptr;
  expect_close(got.q, expected.q, terms, dtype, "dq", is_given ? &magnitudes->q : nullptr);
  expect_close(got.k, expected.k, terms, dtype, "dk", is_given ? &magnitudes->k : nullptr);
  expect_close(got.v, expected.v, terms, dtype, "dv", is_given ? &magnitudes->v : nullptr);
  expect_close(got.bias, expected.bias, terms, DType::kF32, "dbias");
}

}  // namespace shoehorn::cpu::test_support
