// Naive double-precision references of the ops' forwards, for op_gradient_test.cc. Row-major; R rows, H
// columns.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"
#include "graph/attributes.h"

namespace shoehorn::test_support {

using Doubles = std::vector<double>;

// op(A)[M, K] · op(B)[K, N]
inline Doubles matmul_reference(const Doubles& a, bool transpose_a, const Doubles& b, bool transpose_b,
                                int64_t m, int64_t n, int64_t k) {
  Doubles c(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t x = 0; x < k; ++x) {
        c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(transpose_a ? x * m + i : i * k + x)] *
                                             b[static_cast<size_t>(transpose_b ? j * k + x : x * n + j)];
      }
    }
  }
  return c;
}

inline Doubles add_reference(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i % b.size()];  // b may be a row
  return a;
}

inline Doubles activation_reference(Doubles x, Activation kind) {
  for (double& v : x) {
    switch (kind) {
      case Activation::kGelu:
        v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
        break;
      case Activation::kGeluTanh:
        v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        break;
      case Activation::kRelu:
        v = std::max(v, 0.0);
        break;
      case Activation::kSilu:
        v = v / (1 + std::exp(-v));
        break;
      case Activation::kTanh:
        v = std::tanh(v);
        break;
    }
  }
  return x;
}

inline Doubles multiply_reference(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

// rotary(x, rotary_table(positions))
inline Doubles rotary_reference(const Doubles& x, int64_t columns, const RotaryAttributes& attributes,
                                const RotaryFrequencies& rotary, const std::vector<int32_t>& positions) {
  Doubles y = x;
  const size_t pairs = rotary.frequencies.size();
  for (size_t row = 0; row < positions.size(); ++row) {
    for (int64_t head = 0; head < attributes.heads; ++head) {
      for (size_t i = 0; i < pairs; ++i) {
        const size_t at = row * static_cast<size_t>(columns) +
                          static_cast<size_t>(attributes.first_column + head * attributes.head_size) + i;
        const double angle = static_cast<float>(positions[row]) * rotary.frequencies[i];
        const double cosine = rotary.attention_factor * std::cos(angle);
        const double sine = (attributes.inverse ? -1 : 1) * rotary.attention_factor * std::sin(angle);
        y[at] = x[at] * cosine - x[at + pairs] * sine;
        y[at + pairs] = x[at + pairs] * cosine + x[at] * sine;
      }
    }
  }
  return y;
}

// What an element is multiplied by.
inline double mask_reference(const Dropout& dropout, uint32_t step, int32_t sample, int32_t position,
                             int64_t feature, uint32_t extra = 0) {
  if (dropout.p == 0) return 1;
  const auto block = philox4x32_10(philox_key(dropout.seed, step, dropout.stream_id),
                                   {static_cast<uint32_t>(feature / 8), static_cast<uint32_t>(position),
                                    static_cast<uint32_t>(sample), extra});
  const uint32_t bits = block[static_cast<size_t>(feature % 8 / 2)] >> (feature % 2 * 16) & 0xFFFFU;
  const double threshold = std::floor(static_cast<double>(dropout.p) * 65536 + 0.5);
  return bits < threshold ? 0 : 65536 / (65536 - threshold);
}

inline Doubles dropout_reference(Doubles x, int64_t columns, const Dropout& dropout, uint32_t step,
                                 const std::vector<int32_t>& sample, const std::vector<int32_t>& position) {
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / static_cast<size_t>(columns);
    x[i] *= mask_reference(dropout, step, sample[row], position[row], static_cast<int64_t>(i) % columns);
  }
  return x;
}

// Of sequences of rows, each [start, length, sample].
inline Doubles noise_reference(Doubles x, int64_t columns, const NoiseAttributes& noise, uint32_t step,
                               const std::vector<std::array<int32_t, 3>>& sequences) {
  for (const auto& [start, length, sample] : sequences) {
    const double largest = noise.alpha / std::sqrt(static_cast<double>(length * columns));
    for (int32_t position = 0; position < length; ++position) {
      for (int64_t column = 0; column < columns; ++column) {
        const auto block = philox4x32_10(philox_key(noise.seed, step, noise.stream_id),
                                         {static_cast<uint32_t>(column / 8), static_cast<uint32_t>(position),
                                          static_cast<uint32_t>(sample), 0});
        const uint32_t bits = (block[static_cast<size_t>(column % 8 / 2)] >> (16 * (column % 2))) & 0xffffU;
        x[static_cast<size_t>((start + position) * columns + column)] +=
            largest * ((2.0 * bits + 1) / 65536 - 1);
      }
    }
  }
  return x;
}

inline Doubles layer_norm_reference(Doubles x, const Doubles& gamma, const Doubles& beta, double epsilon) {
  const size_t columns = gamma.size();
  for (size_t row = 0; row < x.size() / columns; ++row) {
    double mean = 0;
    double variance = 0;
    for (size_t i = 0; i < columns; ++i) mean += x[row * columns + i] / static_cast<double>(columns);
    for (size_t i = 0; i < columns; ++i)
      variance += std::pow(x[row * columns + i] - mean, 2) / static_cast<double>(columns);
    for (size_t i = 0; i < columns; ++i) {
      double& v = x[row * columns + i];
      v = (v - mean) / std::sqrt(variance + epsilon) * gamma[i] + beta[i];
    }
  }
  return x;
}

inline Doubles rms_norm_reference(Doubles x, const Doubles& gamma, double epsilon) {
  const size_t columns = gamma.size();
  for (size_t row = 0; row < x.size() / columns; ++row) {
    double square = 0;
    for (size_t i = 0; i < columns; ++i)
      square += std::pow(x[row * columns + i], 2) / static_cast<double>(columns);
    for (size_t i = 0; i < columns; ++i) x[row * columns + i] *= gamma[i] / std::sqrt(square + epsilon);
  }
  return x;
}

struct Sequences {
  std::vector<int32_t> start, length, sample;
  std::vector<int32_t> key_start, key_length;  // empty: the queries' rows
};

// softmax(scale · q·kᵀ + bias)·v of each sequence and head, probabilities dropped; rows in no sequence are zero.
// q is [rows, A · D], k and v [rows of the keys, K · D], bias [A, Tq + Tk - 1] by distance or empty.
inline Doubles attention_reference(const Doubles& q, const Doubles& k, const Doubles& v, const Doubles& bias,
                                   const AttentionAttributes& attributes, const Sequences& sequences,
                                   uint32_t step) {
  Doubles context(q.size(), 0);
  const int64_t group = attributes.heads / attributes.key_value_heads;
  const auto& key_starts = sequences.key_start.empty() ? sequences.start : sequences.key_start;
  const auto& key_lengths = sequences.key_start.empty() ? sequences.length : sequences.key_length;
  for (size_t s = 0; s < sequences.start.size(); ++s) {
    for (int64_t head = 0; head < attributes.heads; ++head) {
      const auto at = [&](int64_t token, int64_t d) {
        return static_cast<size_t>(
            ((sequences.start[s] + token) * attributes.heads + head) * attributes.head_size + d);
      };
      const auto key_at = [&](int64_t key, int64_t d) {
        return static_cast<size_t>(
            ((key_starts[s] + key) * attributes.key_value_heads + head / group) * attributes.head_size + d);
      };
      for (int64_t query = 0; query < sequences.length[s]; ++query) {
        const int64_t place = query + key_lengths[s] - sequences.length[s];
        const auto sees = [&](int64_t key) {
          switch (attributes.mask.kind) {
            case AttentionMask::Kind::kFull:
              return true;
            case AttentionMask::Kind::kCausal:
              return key <= place;
            case AttentionMask::Kind::kWindow:
              return key <= place && place - key < attributes.mask.window;
          }
          return false;
        };
        Doubles weights(static_cast<size_t>(key_lengths[s]), -std::numeric_limits<double>::infinity());
        double largest = -std::numeric_limits<double>::infinity();
        for (int64_t key = 0; key < key_lengths[s]; ++key) {
          if (!sees(key)) continue;
          double& score = weights[static_cast<size_t>(key)] = 0;
          for (int64_t d = 0; d < attributes.head_size; ++d)
            score += attributes.scale * q[at(query, d)] * k[key_at(key, d)];
          if (!bias.empty()) {
            score += bias[static_cast<size_t>(
                head * (attributes.max_query_length + attributes.max_key_length - 1) + key - place +
                attributes.max_key_length - 1)];
          }
          largest = std::max(largest, score);
        }
        double sum = 0;
        for (int64_t key = 0; key < key_lengths[s]; ++key) {
          double& weight = weights[static_cast<size_t>(key)];
          weight = sees(key) ? std::exp(weight - largest) : 0;
          sum += weight;
        }
        if (sum == 0) continue;
        for (int64_t key = 0; key < key_lengths[s]; ++key) {
          const double mask = mask_reference(attributes.dropout, step, sequences.sample[s],
                                             static_cast<int32_t>(query), key, static_cast<uint32_t>(head));
          const double probability = weights[static_cast<size_t>(key)] / sum * mask;
          for (int64_t d = 0; d < attributes.head_size; ++d)
            context[at(query, d)] += probability * v[key_at(key, d)];
        }
      }
    }
  }
  return context;
}

// Sum over rows of the smoothed cross-entropy and of z_loss times the square of the log-sum-exp, over the number of
// targets; labels below zero are ignored.
inline double cross_entropy_reference(const Doubles& logits, const std::vector<int32_t>& labels,
                                      double target_count, double smoothing, double z_loss = 0,
                                      const Doubles& class_weights = {}) {
  const size_t classes = logits.size() / labels.size();
  double loss = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    const double* x = &logits[row * classes];
    double largest = x[0];
    double sum = 0;
    const auto weight = [&](size_t c) { return class_weights.empty() ? 1 : class_weights[c]; };
    double mean = 0;
    for (size_t c = 0; c < classes; ++c) largest = std::max(largest, x[c]);
    for (size_t c = 0; c < classes; ++c) sum += std::exp(x[c] - largest);
    const double log_sum = largest + std::log(sum);
    for (size_t c = 0; c < classes; ++c) mean += weight(c) * (log_sum - x[c]) / static_cast<double>(classes);
    const auto label = static_cast<size_t>(labels[row]);
    loss += (1 - smoothing) * weight(label) * (log_sum - x[label]) + smoothing * mean +
            z_loss * log_sum * log_sum;
  }
  return loss / target_count;
}

inline double mean_squared_error_reference(const Doubles& logits, const Doubles& values,
                                           double target_count) {
  double loss = 0;
  for (size_t i = 0; i < logits.size(); ++i) loss += (logits[i] - values[i]) * (logits[i] - values[i]);
  return loss / target_count;
}

inline double binary_cross_entropy_reference(const Doubles& logits, const Doubles& values,
                                             double target_count, const Doubles& positive_weights = {}) {
  double loss = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = positive_weights.empty() ? 1 : positive_weights[i % positive_weights.size()];
    loss += weight * values[i] * std::log1p(std::exp(-logits[i])) +
            (1 - values[i]) * std::log1p(std::exp(logits[i]));
  }
  return loss / target_count;
}

}  // namespace shoehorn::test_support
