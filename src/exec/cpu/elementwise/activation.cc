#include "exec/cpu/elementwise/activation.h"

#include <algorithm>

#include "exec/cpu/optimizers/reduction.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Of an activation function.
struct ValueAndSlope {
  FloatVector value;
  FloatVector slope;
};

struct Gelu {
  static HWY_INLINE FloatVector value(FloatVector x) { return gelu(x); }
  static HWY_INLINE FloatVector slope(FloatVector x) { return gelu_derivative(x); }
};
struct GeluTanh {
  static HWY_INLINE FloatVector value(FloatVector x) { return gelu_tanh(x); }
  static HWY_INLINE FloatVector slope(FloatVector x) { return gelu_tanh_derivative(x); }
};
struct Relu {
  static HWY_INLINE FloatVector value(FloatVector x) { return relu(x); }
  static HWY_INLINE FloatVector slope(FloatVector x) { return relu_derivative(x); }
};
struct Silu {
  static HWY_INLINE FloatVector value(FloatVector x) { return silu(x); }
  static HWY_INLINE FloatVector slope(FloatVector x) { return silu_derivative(x); }
};
struct Tanh {
  static HWY_INLINE FloatVector value(FloatVector x) { return tanh(x); }
  static HWY_INLINE FloatVector slope(FloatVector x) { return tanh_derivative(x); }
};

template <class Kind>
HWY_INLINE ValueAndSlope value_and_slope(Kind, FloatVector x) {
  return {Kind::value(x), Kind::slope(x)};
}
// One exponential for both; its bounds move no value.
HWY_INLINE ValueAndSlope value_and_slope(Silu, FloatVector x) {
  const FloatVector bounded = hn::Max(set(-110.0f), hn::Min(set(110.0f), x));
  const Logistic s = logistic(bounded);
  return {hn::Mul(x, s.value), hn::MulAdd(bounded, s.slope, s.value)};
}

// Calls function(Kind{}, T{}).
template <class Function>
void with_kind(Activation kind, DType dtype, const Function& function) {
  with_storage(dtype, [&](auto type) {
    switch (kind) {
      case Activation::kGelu:
        return function(Gelu{}, type);
      case Activation::kGeluTanh:
        return function(GeluTanh{}, type);
      case Activation::kRelu:
        return function(Relu{}, type);
      case Activation::kSilu:
        return function(Silu{}, type);
      case Activation::kTanh:
        return function(Tanh{}, type);
    }
  });
}

void forward_rows(const BiasActivationForward& g, int64_t begin, int64_t end) {
  with_kind(g.kind, g.dtype, [&](auto kind, auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.x) + row * g.features;
      T* y = static_cast<T*>(g.y) + row * g.features;
      for_columns(0, g.features, [&](int64_t i, auto lanes) {
        FloatVector value = load(x + i, lanes);
        if (g.bias != nullptr) value = hn::Add(value, load(g.bias + i, lanes));
        store(kind.value(value), y + i, lanes);
      });
    }
  });
}

// `sum` [F] receives the column sums of dx; null: not wanted.
void backward_rows(const BiasActivationBackward& g, int64_t begin, int64_t end, float* sum) {
  if (sum != nullptr) {
    for_columns(0, g.features, [&](int64_t i, auto lanes) { store(hn::Zero(FloatTag()), sum + i, lanes); });
  }
  with_kind(g.kind, g.dtype, [&](auto kind, auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.x) + row * g.features;
      const T* dy = static_cast<const T*>(g.dy) + row * g.features;
      T* dx = static_cast<T*>(g.dx) + row * g.features;
      for_columns(0, g.features, [&](int64_t i, auto lanes) {
        FloatVector value = load(x + i, lanes);
        if (g.bias != nullptr) value = hn::Add(value, load(g.bias + i, lanes));
        const FloatVector gradient = hn::Mul(load(dy + i, lanes), kind.slope(value));
        store(gradient, dx + i, lanes);
        if (sum != nullptr) store(hn::Add(load(sum + i, lanes), gradient), sum + i, lanes);
      });
    }
  });
}

void gated_forward_range(const GatedActivationForward& g, int64_t begin, int64_t end) {
  with_kind(g.kind, g.dtype, [&](auto kind, auto type) {
    using T = decltype(type);
    const T* gate = static_cast<const T*>(g.gate);
    const T* up = static_cast<const T*>(g.up);
    T* y = static_cast<T*>(g.y);
    const auto gated = [&](FloatVector x, FloatVector factor) { return hn::Mul(kind.value(x), factor); };
    for_columns_in_pairs(begin, end, [&](int64_t i, auto lanes) {
      store(each(gated, load(gate + i, lanes), load(up + i, lanes)), y + i, lanes);
    });
  });
}

void gated_backward_range(const GatedActivationBackward& g, int64_t begin, int64_t end) {
  with_kind(g.kind, g.dtype, [&](auto kind, auto type) {
    using T = decltype(type);
    const T* dy = static_cast<const T*>(g.dy);
    const T* gate = static_cast<const T*>(g.gate);
    const T* up = static_cast<const T*>(g.up);
    T* dgate = static_cast<T*>(g.dgate);
    T* dup = static_cast<T*>(g.dup);
    const auto both = [&](FloatVector x) { return value_and_slope(kind, x); };
    const auto to_gate = [](FloatVector gradient, FloatVector factor, const ValueAndSlope& gated) {
      return hn::Mul(hn::Mul(gradient, factor), gated.slope);
    };
    const auto to_up = [](FloatVector gradient, const ValueAndSlope& gated) {
      return hn::Mul(gradient, gated.value);
    };
    for_columns_in_pairs(begin, end, [&](int64_t i, auto lanes) {
      const auto gradient = load(dy + i, lanes);
      const auto factor = load(up + i, lanes);
      const auto gated = each(both, load(gate + i, lanes));
      store(each(to_gate, gradient, factor, gated), dgate + i, lanes);
      store(each(to_up, gradient, gated), dup + i, lanes);
    });
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_rows);
HWY_EXPORT(gated_forward_range);
HWY_EXPORT(gated_backward_range);

}  // namespace

void bias_activation_forward(const BiasActivationForward& arguments) {
  check_storage(arguments.dtype, "activation");
  parallel_ranges(arguments.rows, row_grain(arguments.features), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_rows)(arguments, begin, end);
  });
}

int64_t bias_activation_backward_workspace_bytes(int64_t rows, int64_t features) {
  return ceil_divide(rows, kRowsPerChunk) * features * static_cast<int64_t>(sizeof(float));
}

void bias_activation_backward(const BiasActivationBackward& g) {
  check_storage(g.dtype, "activation");
  if (g.dbias == nullptr) {
    parallel_ranges(g.rows, row_grain(g.features), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(backward_rows)(g, begin, end, nullptr);
    });
    return;
  }
  float* partials = static_cast<float*>(g.workspace);
  const int64_t chunks = ceil_divide(g.rows, kRowsPerChunk);
  parallel_ranges(chunks, chunk_grain(g.features), [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t row = chunk * kRowsPerChunk;
      const int64_t last_row = std::min(g.rows, row + kRowsPerChunk);
      HWY_DYNAMIC_DISPATCH(backward_rows)(g, row, last_row, partials + chunk * g.features);
    }
  });
  add_partials(partials, chunks, g.features, g.features, g.accumulate, g.dbias);
}

void gated_activation_forward(const GatedActivationForward& arguments) {
  check_storage(arguments.dtype, "gated_activation");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gated_forward_range)(arguments, begin, end);
  });
}

void gated_activation_backward(const GatedActivationBackward& arguments) {
  check_storage(arguments.dtype, "gated_activation");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gated_backward_range)(arguments, begin, end);
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
