#include "exec/cpu/losses/loss.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/losses/loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// The largest of a row. Max may pass over what is not a number; the sum of exponentials then shows it.
template <class T>
HWY_INLINE float row_maximum(const T* x, int64_t classes) {
  const FloatVector lowest = set(-HUGE_VALF);
  FloatVector largest = lowest;
  for_columns(0, classes, [&](int64_t i, auto lanes) {
    largest = hn::Max(largest, keep_live(load(x + i, lanes), lanes, lowest));
  });
  return max_lanes(largest);
}

// Of the classes' weights, or their number.
float sum_of_weights(const float* weights, int64_t classes) {
  if (weights == nullptr) return static_cast<float>(classes);
  return static_cast<float>(std::accumulate(weights, weights + classes, 0.0));
}

template <class T>
HWY_INLINE float row_loss(const CrossEntropyForward& g, const T* x, int64_t row, float weights_sum) {
  const float maximum = row_maximum(x, g.classes);
  const FloatVector shift = set(maximum);
  FloatVector exponentials = hn::Zero(FloatTag());
  FloatVector differences = hn::Zero(FloatTag());
  for_columns(0, g.classes, [&](int64_t i, auto lanes) {
    const FloatVector difference = hn::Sub(load(x + i, lanes), shift);
    exponentials = hn::Add(exponentials, keep_live(exp(difference), lanes));
    if (g.label_smoothing == 0.0F) return;
    const FloatVector term =
        g.class_weights == nullptr ? difference : hn::Mul(difference, load(g.class_weights + i, lanes));
    differences = hn::Add(differences, keep_live(term, lanes));
  });
  const float sum = sum_lanes(exponentials);
  g.row_maximum[row] = maximum;
  g.row_sum[row] = sum;
  if (g.labels[row] == kIgnoredLabel) return 0.0F;
  const float log_sum = std::log(sum);
  const float log_sum_exp = maximum + log_sum;
  const float z_loss = g.z_loss * log_sum_exp * log_sum_exp;
  const float weight = g.class_weights == nullptr ? 1.0F : g.class_weights[g.labels[row]];
  const float label_loss = weight * (log_sum - (read_element(x + g.labels[row]) - maximum));
  if (g.label_smoothing == 0.0F) return label_loss + z_loss;
  const auto classes = static_cast<float>(g.classes);
  const float mean_loss = log_sum * (weights_sum / classes) - sum_lanes(differences) / classes;
  return (1.0F - g.label_smoothing) * label_loss + g.label_smoothing * mean_loss + z_loss;
}

void forward_rows(const CrossEntropyForward& g, int64_t begin, int64_t end) {
  const float weights_sum = sum_of_weights(g.class_weights, g.classes);
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      static_cast<float*>(g.workspace)[row] =
          row_loss(g, static_cast<const T*>(g.logits) + row * g.classes, row, weights_sum);
    }
  });
}

void backward_rows(const CrossEntropyBackward& g, int64_t begin, int64_t end) {
  const float factor = (g.gradient_scale == nullptr ? 1.0F : *g.gradient_scale) / *g.target_count;
  const float spread = g.label_smoothing / static_cast<float>(g.classes);
  const float* weights = g.class_weights;
  const float weights_sum = sum_of_weights(weights, g.classes);
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.logits) + row * g.classes;
      T* dx = static_cast<T*>(g.dlogits) + row * g.classes;
      const int32_t label = g.labels[row];
      if (label == kIgnoredLabel) {
        for_columns(0, g.classes, [&](int64_t i, auto lanes) { store(hn::Zero(FloatTag()), dx + i, lanes); });
        continue;
      }
      const FloatVector shift = set(g.row_maximum[row]);
      const float weight = weights == nullptr ? 1.0F : weights[label];
      const float mass =
          weights == nullptr ? 1.0F : (1.0F - g.label_smoothing) * weight + spread * weights_sum;
      const float pull = z_loss_factor(g.z_loss, g.row_maximum[row], g.row_sum[row]) + (mass - 1.0F);
      const FloatVector scale = set(factor * pull / g.row_sum[row]);
      const FloatVector even_share = set(factor * spread);
      // Before the row is overwritten, should dlogits be logits.
      const float probability =
          pull * std::exp(read_element(x + label) - g.row_maximum[row]) / g.row_sum[row];
      for_columns(0, g.classes, [&](int64_t i, auto lanes) {
        const FloatVector exponential = exp(hn::Sub(load(x + i, lanes), shift));
        const FloatVector share =
            weights == nullptr ? even_share : hn::Mul(even_share, load(weights + i, lanes));
        store(hn::MulSub(exponential, scale, share), dx + i, lanes);
      });
      write_element(factor * (probability - weight * (1.0F - g.label_smoothing) - weight * spread),
                    dx + label);
    }
  });
}

template <typename Gradient>
void value_loss_gradients(const ValueLossBackward& g, int64_t begin, int64_t end, const Gradient& gradient) {
  const float factor = (g.gradient_scale == nullptr ? 1.0F : *g.gradient_scale) / *g.target_count;
  const FloatVector scale = set(factor / static_cast<float>(g.columns));
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const T* x = static_cast<const T*>(g.logits);
    T* dx = static_cast<T*>(g.dlogits);
    for_columns(begin, end, [&](int64_t i, auto lanes) {
      store(hn::Mul(gradient(load(x + i, lanes), load(g.values + i, lanes)), scale), dx + i, lanes);
    });
  });
}

void squared_error_gradients(const ValueLossBackward& g, int64_t begin, int64_t end) {
  value_loss_gradients(g, begin, end, [](FloatVector x, FloatVector y) {
    const FloatVector difference = hn::Sub(x, y);
    return hn::Add(difference, difference);
  });
}

void binary_cross_entropy_gradients(const ValueLossBackward& g, int64_t begin, int64_t end) {
  value_loss_gradients(g, begin, end, [](FloatVector x, FloatVector y) { return hn::Sub(sigmoid(x), y); });
}

// Rows begin to end.
void weighted_binary_cross_entropy_gradients(const ValueLossBackward& g, int64_t begin, int64_t end) {
  const float factor = (g.gradient_scale == nullptr ? 1.0F : *g.gradient_scale) / *g.target_count;
  const FloatVector scale = set(factor / static_cast<float>(g.columns));
  const FloatVector one = set(1.0F);
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.logits) + row * g.columns;
      const float* values = g.values + row * g.columns;
      T* dx = static_cast<T*>(g.dlogits) + row * g.columns;
      for_columns(0, g.columns, [&](int64_t i, auto lanes) {
        const FloatVector weight = load(g.positive_weights + i, lanes);
        const FloatVector y = load(values + i, lanes);
        const FloatVector pull = hn::MulAdd(hn::Sub(weight, one), y, one);
        const FloatVector gradient = hn::MulSub(pull, sigmoid(load(x + i, lanes)), hn::Mul(weight, y));
        store(hn::Mul(gradient, scale), dx + i, lanes);
      });
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_rows);
HWY_EXPORT(squared_error_gradients);
HWY_EXPORT(binary_cross_entropy_gradients);
HWY_EXPORT(weighted_binary_cross_entropy_gradients);

// Behind the forward. Logits that are not numbers are no label's.
bool is_right(const CrossEntropyForward& g, int64_t row) {
  if (g.labels[row] == kIgnoredLabel) return false;
  bool is_first = false;
  with_storage(g.dtype, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(g.logits) + row * g.classes;
    const float maximum = g.row_maximum[row];
    const auto* label = x + g.labels[row];
    is_first = read_element(label) == maximum &&
               std::none_of(x, label, [&](const auto& logit) { return read_element(&logit) == maximum; });
  });
  return is_first;
}

// A mean over many rows is summed in double, in their order; the workspace has each row's loss.
template <typename Forward>
void finish_loss(const Forward& g) {
  const float* row_losses = static_cast<const float*>(g.workspace);
  double sum = 0;
  for (int64_t row = 0; row < g.rows; ++row) sum += static_cast<double>(row_losses[row]);
  const float mean = static_cast<float>(sum / *g.target_count);
  *g.loss = g.accumulate ? *g.loss + mean : mean;
}

// `loss(x, y, column)`: of one logit and its value.
template <typename Loss>
void value_loss_forward(const ValueLossForward& g, const Loss& loss) {
  parallel_ranges(g.rows, row_grain(g.columns), [&](int64_t begin, int64_t end) {
    with_storage(g.dtype, [&](auto type) {
      const auto* x = static_cast<const decltype(type)*>(g.logits);
      for (int64_t row = begin; row < end; ++row) {
        double sum = 0;
        for (int64_t column = 0; column < g.columns; ++column) {
          const int64_t i = row * g.columns + column;
          sum += loss(static_cast<double>(read_element(x + i)), static_cast<double>(g.values[i]), column);
        }
        static_cast<float*>(g.workspace)[row] = static_cast<float>(sum / static_cast<double>(g.columns));
      }
    });
  });
  finish_loss(g);
}

}  // namespace

void check_labels(const int32_t* labels, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t label = labels[row];
    if ((label >= 0 && label < classes) || label == kIgnoredLabel) continue;
    throw user_error(
        "[labels] expected 0 to {} or {} (ignored), got {} at row {}; does num_labels fit the data?",
        classes - 1, kIgnoredLabel, label, row);
  }
}

int64_t loss_workspace_bytes(int64_t rows) {
  return rows * static_cast<int64_t>(sizeof(float));
}

void cross_entropy_forward(const CrossEntropyForward& g) {
  check_storage(g.dtype, "cross_entropy");
  check_labels(g.labels, g.rows, g.classes);
  parallel_ranges(g.rows, row_grain(g.classes),
                  [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(forward_rows)(g, begin, end); });
  finish_loss(g);
  std::atomic<int64_t> right = 0;
  parallel_ranges(g.rows, row_grain(g.classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) right += is_right(g, row) ? 1 : 0;
  });
  *g.right = static_cast<float>(right.load());
}

void cross_entropy_backward(const CrossEntropyBackward& g) {
  check_storage(g.dtype, "cross_entropy");
  check_labels(g.labels, g.rows, g.classes);
  parallel_ranges(g.rows, row_grain(g.classes),
                  [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(backward_rows)(g, begin, end); });
}

void mean_squared_error_forward(const ValueLossForward& g) {
  check_storage(g.dtype, "mean_squared_error");
  value_loss_forward(g, [](double x, double y, int64_t) { return (x - y) * (x - y); });
}

void mean_squared_error_backward(const ValueLossBackward& g) {
  check_storage(g.dtype, "mean_squared_error");
  parallel_ranges(g.rows * g.columns, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(squared_error_gradients)(g, begin, end);
  });
}

void binary_cross_entropy_forward(const ValueLossForward& g) {
  check_storage(g.dtype, "binary_cross_entropy");
  value_loss_forward(g, [&g](double x, double y, int64_t column) {
    const double of_others = std::log1p(std::exp(-std::abs(x)));  // log(1 + e^-|x|)
    if (g.positive_weights == nullptr) return std::max(x, 0.0) - x * y + of_others;
    const double pull = 1 + (static_cast<double>(g.positive_weights[column]) - 1) * y;
    return (1 - y) * x + pull * (of_others + std::max(-x, 0.0));
  });
}

void binary_cross_entropy_backward(const ValueLossBackward& g) {
  check_storage(g.dtype, "binary_cross_entropy");
  if (g.positive_weights != nullptr) {
    parallel_ranges(g.rows, row_grain(g.columns), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(weighted_binary_cross_entropy_gradients)(g, begin, end);
    });
    return;
  }
  parallel_ranges(g.rows * g.columns, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(binary_cross_entropy_gradients)(g, begin, end);
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
