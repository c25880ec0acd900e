#include "exec/cpu/losses/vocabulary_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/cpu/losses/loss.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/losses/vocabulary_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

template <class From, class To>
HWY_INLINE void copy_row(const From* from, int64_t columns, To* to) {
  for_columns(0, columns, [&](int64_t i, auto lanes) { store(load(from + i, lanes), to + i, lanes); });
}

void gather_rows(const VocabularyBlock& block, DType dtype, const void* x, DType operands, void* to,
                 int64_t begin, int64_t end) {
  with_storage(dtype, [&](auto from_type) {
    with_storage(operands, [&](auto to_type) {
      const auto* from = static_cast<const decltype(from_type)*>(x);
      auto* rows = static_cast<decltype(to_type)*>(to);
      for (int64_t row = begin; row < end; ++row) {
        if (row < block.count)
          copy_row(from + block.rows[row].token * block.hidden, block.hidden, rows + row * block.hidden);
        else
          std::memset(rows + row * block.hidden, 0, static_cast<size_t>(block.hidden) * sizeof(to_type));
      }
    });
  });
}

// Max may pass over what is not a number; the sum of exponentials then shows it.
HWY_INLINE float largest_of(const float* logits, int64_t columns) {
  const FloatVector lowest = set(-HUGE_VALF);
  FloatVector largest = lowest;
  for_columns(0, columns, [&](int64_t i, auto lanes) {
    largest = hn::Max(largest, keep_live(load(logits + i, lanes), lanes, lowest));
  });
  return max_lanes(largest);
}

// Calls keep(exponential, column, lanes) for each vector of exp(logit - maximum). Returns what sums over the chunks
// before are to be multiplied by. `keep` may overwrite the logits.
template <class Keep>
HWY_INLINE float add_chunk(const VocabularyBlock& block, const VocabularyChunk& chunk, const float* logits,
                           VocabularyRow& row, const Keep& keep) {
  const float largest = largest_of(logits, chunk.columns);
  const float maximum = std::max(row.maximum, largest);
  if (row.label >= chunk.first && row.label < chunk.first + chunk.columns) {
    const float* label = logits + (row.label - chunk.first);
    row.label_logit = *label;
    // A label's logit below the chunk's largest is not the largest in any case.
    row.is_first = row.maximum < *label && (*label != largest || std::find(logits, label, *label) == label);
  }
  const FloatVector shift = set(maximum);
  if (block.label_smoothing != 0.0F) {
    const FloatVector differences = fold_columns(chunk.columns, [&](FloatVector sum, int64_t i, auto lanes) {
      return hn::Add(sum, keep_live(hn::Sub(load(logits + i, lanes), shift), lanes));
    });
    row.logits_sum += static_cast<double>(sum_lanes(differences)) +
                      static_cast<double>(chunk.columns) * static_cast<double>(maximum);
  }
  const FloatVector exponentials = fold_columns(chunk.columns, [&](FloatVector sum, int64_t i, auto lanes) {
    const FloatVector exponential = exp(hn::Sub(load(logits + i, lanes), shift));
    keep(exponential, i, lanes);
    return hn::Add(sum, keep_live(exponential, lanes));
  });
  const float scale = std::exp(row.maximum - maximum);
  row.sum = row.sum * scale + sum_lanes(exponentials);
  row.maximum = maximum;
  return scale;
}

void statistics_rows(const VocabularyBlock& block, const VocabularyChunk& chunk, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    add_chunk(block, chunk, chunk.logits + row * chunk.columns, block.rows[row],
              [](FloatVector, int64_t, auto) {});
  }
}

void exponential_rows(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands, void* to,
                      float* sums, float* maxima, int64_t begin, int64_t end) {
  with_storage(operands, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      T* out = static_cast<T*>(to) + row * chunk.columns;
      if (row >= block.count) {
        std::fill_n(out, chunk.columns, T{});
        continue;
      }
      const float scale = add_chunk(
          block, chunk, chunk.logits + row * chunk.columns, block.rows[row],
          [&](FloatVector exponential, int64_t i, auto lanes) { store(exponential, out + i, lanes); });
      if (maxima != nullptr) maxima[row] = block.rows[row].maximum;
      if (scale == 1.0F || sums == nullptr) continue;
      float* sum = sums + row * block.hidden;
      for_columns(0, block.hidden, [&](int64_t i, auto lanes) {
        store(hn::Mul(load(sum + i, lanes), set(scale)), sum + i, lanes);
      });
    }
  });
}

void logit_gradient_rows(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands, void* to,
                         int64_t begin, int64_t end) {
  const float spread = block.label_smoothing / static_cast<float>(block.vocabulary);
  const FloatVector even_share = set(block.factor * spread);
  with_storage(operands, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = begin; i < end; ++i) {
      T* out = static_cast<T*>(to) + i * chunk.columns;
      if (i >= block.count) {
        std::fill_n(out, chunk.columns, T{});
        continue;
      }
      const VocabularyRow& row = block.rows[i];
      const float* logits = chunk.logits + i * chunk.columns;
      const float pull = z_loss_factor(block.z_loss, row.maximum, row.sum);
      const int64_t label = row.label - chunk.first;
      const bool has_label = label >= 0 && label < chunk.columns;
      // Before the row is overwritten, should the gradients be the logits.
      const float probability = has_label ? std::exp(logits[label] - row.maximum) / row.sum : 0.0F;
      const FloatVector shift = set(row.maximum);
      const FloatVector scale = set(block.factor * pull / row.sum);
      for_columns(0, chunk.columns, [&](int64_t at, auto lanes) {
        const FloatVector exponential = exp(hn::Sub(load(logits + at, lanes), shift));
        store(hn::MulSub(exponential, scale, even_share), out + at, lanes);
      });
      if (has_label)
        write_element(block.factor * (pull * probability - (1.0F - block.label_smoothing) - spread),
                      out + label);
    }
  });
}

void scaled_rows(const VocabularyBlock& block, const float* maxima, const float* maxima_before,
                 DType operands, const void* x, void* to, int64_t begin, int64_t end) {
  with_storage(operands, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = begin; i < end; ++i) {
      T* out = static_cast<T*>(to) + i * block.hidden;
      if (i >= block.count) {
        if (maxima_before == nullptr) std::fill_n(out, block.hidden, T{});
        continue;
      }
      if (maxima_before != nullptr && maxima_before[i] == maxima[i]) continue;
      const VocabularyRow& row = block.rows[i];
      const float pull = z_loss_factor(block.z_loss, row.maximum, row.sum);
      const FloatVector scale = set(block.factor * pull / row.sum * std::exp(maxima[i] - row.maximum));
      const T* from = static_cast<const T*>(x) + i * block.hidden;
      for_columns(0, block.hidden, [&](int64_t at, auto lanes) {
        store(hn::Mul(load(from + at, lanes), scale), out + at, lanes);
      });
    }
  });
}

// Of all rows, columns [begin, end): two rows may have the same label.
void label_gradient_columns(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                            const void* x, float* dweight, int64_t begin, int64_t end) {
  with_storage(operands, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < block.count; ++i) {
      const VocabularyRow& row = block.rows[i];
      const int64_t label = row.label - chunk.first;
      if (label < 0 || label >= chunk.columns) continue;
      const float probability = std::exp(row.label_logit - row.maximum) / row.sum;
      const float pull = z_loss_factor(block.z_loss, row.maximum, row.sum);
      const FloatVector gradient = set(block.factor * (pull * probability - (1.0F - block.label_smoothing)));
      const T* from = static_cast<const T*>(x) + i * block.hidden;
      float* sums = dweight + label * block.hidden;
      for_columns(begin, end, [&](int64_t at, auto lanes) {
        store(hn::MulAdd(load(from + at, lanes), gradient, load(sums + at, lanes)), sums + at, lanes);
      });
    }
  });
}

void even_share_rows(const VocabularyBlock& block, const float* row_sums, float* dweight, int64_t begin,
                     int64_t end) {
  const FloatVector share = set(block.factor * block.label_smoothing / static_cast<float>(block.vocabulary));
  for (int64_t row = begin; row < end; ++row) {
    float* sums = dweight + row * block.hidden;
    for_columns(0, block.hidden, [&](int64_t at, auto lanes) {
      store(hn::NegMulAdd(share, load(row_sums + at, lanes), load(sums + at, lanes)), sums + at, lanes);
    });
  }
}

void store_rows(const VocabularyBlock& block, const float* sums, DType dtype, void* dx, int64_t begin,
                int64_t end) {
  with_storage(dtype, [&](auto type) {
    auto* rows = static_cast<decltype(type)*>(dx);
    for (int64_t row = begin; row < end; ++row)
      copy_row(sums + row * block.hidden, block.hidden, rows + block.rows[row].token * block.hidden);
  });
}

// (1 + 2 z l) Σ p W - (1 - e) W[label] - e / V Σ W, with p = e^(logit - maximum) / sum
void store_exponential_rows(const VocabularyBlock& block, const float* sums, const void* weight,
                            const float* weight_sums, DType dtype, void* dx, int64_t begin, int64_t end) {
  const float even_share = block.factor * block.label_smoothing / static_cast<float>(block.vocabulary);
  with_storage(dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = begin; i < end; ++i) {
      const VocabularyRow& row = block.rows[i];
      const float* sum = sums + i * block.hidden;
      const T* label = static_cast<const T*>(weight) + row.label * block.hidden;
      T* out = static_cast<T*>(dx) + row.token * block.hidden;
      const float pull = z_loss_factor(block.z_loss, row.maximum, row.sum);
      const FloatVector scale = set(block.factor * pull / row.sum);
      const FloatVector of_label = set(block.factor * (1.0F - block.label_smoothing));
      for_columns(0, block.hidden, [&](int64_t at, auto lanes) {
        FloatVector gradient = hn::Mul(load(sum + at, lanes), scale);
        gradient = hn::NegMulAdd(of_label, load(label + at, lanes), gradient);
        if (even_share != 0.0F)
          gradient = hn::NegMulAdd(set(even_share), load(weight_sums + at, lanes), gradient);
        store(gradient, out + at, lanes);
      });
    }
  });
}

void sum_columns(DType dtype, int64_t rows, int64_t hidden, const void* matrix, float* sums, int64_t begin,
                 int64_t end) {
  with_storage(dtype, [&](auto type) {
    const auto* from = static_cast<const decltype(type)*>(matrix);
    for_columns(begin, end, [&](int64_t i, auto lanes) {
      FloatVector sum = hn::Zero(FloatTag());
      for (int64_t row = 0; row < rows; ++row) sum = hn::Add(sum, load(from + row * hidden + i, lanes));
      store(hn::Add(load(sums + i, lanes), sum), sums + i, lanes);
    });
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(gather_rows);
HWY_EXPORT(statistics_rows);
HWY_EXPORT(exponential_rows);
HWY_EXPORT(logit_gradient_rows);
HWY_EXPORT(scaled_rows);
HWY_EXPORT(label_gradient_columns);
HWY_EXPORT(even_share_rows);
HWY_EXPORT(store_rows);
HWY_EXPORT(store_exponential_rows);
HWY_EXPORT(sum_columns);

}  // namespace

void gather_block(const VocabularyBlock& block, DType dtype, const void* x, DType operands, void* to) {
  parallel_ranges(block.padded, row_grain(block.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gather_rows)(block, dtype, x, operands, to, begin, end);
  });
}

void add_statistics(const VocabularyBlock& block, const VocabularyChunk& chunk) {
  parallel_ranges(block.count, row_grain(chunk.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(statistics_rows)(block, chunk, begin, end);
  });
}

void make_logit_gradients(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                          void* to) {
  parallel_ranges(block.padded, row_grain(chunk.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(logit_gradient_rows)(block, chunk, operands, to, begin, end);
  });
}

void make_exponentials(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands, void* to,
                       float* sums, float* maxima) {
  parallel_ranges(block.padded, row_grain(chunk.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(exponential_rows)(block, chunk, operands, to, sums, maxima, begin, end);
  });
}

void clear_labels(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                  void* exponentials) {
  const int64_t bytes = dtype_bytes(operands);
  for (int64_t row = 0; row < block.count; ++row) {
    const int64_t label = block.rows[row].label - chunk.first;
    if (label >= 0 && label < chunk.columns)
      std::memset(static_cast<char*>(exponentials) + (row * chunk.columns + label) * bytes, 0,
                  static_cast<size_t>(bytes));
  }
}

void scale_rows(const VocabularyBlock& block, const float* maxima, const float* maxima_before, DType operands,
                const void* x, void* to) {
  parallel_ranges(block.padded, row_grain(block.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(scaled_rows)(block, maxima, maxima_before, operands, x, to, begin, end);
  });
}

void add_label_gradients(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                         const void* x, float* dweight) {
  constexpr int64_t kColumns = 64;
  parallel_ranges(block.hidden, std::max(kColumns, row_grain(block.count)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(label_gradient_columns)(block, chunk, operands, x, dweight, begin, end);
  });
}

void subtract_even_share(const VocabularyBlock& block, const float* row_sums, float* dweight) {
  parallel_ranges(block.vocabulary, row_grain(block.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(even_share_rows)(block, row_sums, dweight, begin, end);
  });
}

void store_block(const VocabularyBlock& block, const float* sums, DType dtype, void* dx) {
  parallel_ranges(block.count, row_grain(block.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(store_rows)(block, sums, dtype, dx, begin, end);
  });
}

void store_block_of_exponentials(const VocabularyBlock& block, const float* sums, const void* weight,
                                 const float* weight_sums, DType dtype, void* dx) {
  parallel_ranges(block.count, row_grain(block.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(store_exponential_rows)(block, sums, weight, weight_sums, dtype, dx, begin, end);
  });
}

void clear_ignored_rows(const int32_t* labels, int64_t first, int64_t last, int64_t hidden, DType dtype,
                        void* dx) {
  const int64_t row_bytes = hidden * dtype_bytes(dtype);
  parallel_ranges(last - first, row_grain(hidden), [&](int64_t begin, int64_t end) {
    for (int64_t token = first + begin; token < first + end; ++token) {
      if (labels[token] == kIgnoredLabel)
        std::memset(static_cast<char*>(dx) + token * row_bytes, 0, static_cast<size_t>(row_bytes));
    }
  });
}

void add_column_sums(DType dtype, int64_t rows, int64_t hidden, const void* matrix, float* sums) {
  constexpr int64_t kColumns = 64;
  parallel_ranges(hidden, std::max(kColumns, row_grain(rows)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_columns)(dtype, rows, hidden, matrix, sums, begin, end);
  });
}

float loss_of_row(const VocabularyBlock& block, const VocabularyRow& row) {
  const float log_sum = std::log(row.sum);
  const float log_sum_exp = row.maximum + log_sum;
  const float z_loss = block.z_loss * log_sum_exp * log_sum_exp;
  const float label_loss = log_sum - (row.label_logit - row.maximum);
  if (block.label_smoothing == 0.0F) return label_loss + z_loss;
  const double mean_logit = row.logits_sum / static_cast<double>(block.vocabulary);
  const float mean_loss = log_sum - static_cast<float>(mean_logit - static_cast<double>(row.maximum));
  return (1.0F - block.label_smoothing) * label_loss + block.label_smoothing * mean_loss + z_loss;
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
