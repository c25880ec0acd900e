#include "exec/cpu/optimizer_kernels.h"

#include <cmath>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizer_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd_math-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_OPTIMIZER_KERNELS_COMMON_
#define SHOEHORN_EXEC_CPU_OPTIMIZER_KERNELS_COMMON_

namespace shoehorn::cpu {

// What the updates of a step have in common, worked out in double as PyTorch does.
struct AdamWStep {
  double learning_rate;
  float beta1_rest;  // 1 - beta1
  float beta2;
  float beta2_rest;  // 1 - beta2
  float epsilon;
  float step_size;     // lr / (1 - beta1^t)
  float second_scale;  // 1 / sqrt(1 - beta2^t)
  float gradient_scale;
};

struct SgdStep {
  float learning_rate;
  float momentum;
  bool nesterov;
  float gradient_scale;
};

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_OPTIMIZER_KERNELS_COMMON_

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

struct PlainWeight {
  float* value;
  template <class Lanes>
  HWY_INLINE FloatVector get(int64_t i, Lanes lanes) const {
    return load(value + i, lanes);
  }
  template <class Lanes>
  HWY_INLINE void put(FloatVector x, int64_t i, Lanes lanes) const {
    store(x, value + i, lanes);
  }
};

// int16_t and uint16_t may name the same memory, and bfloat16 is one uint16_t.
struct SplitWeight {
  uint16_t* high;
  uint16_t* rest;
  template <class Lanes>
  HWY_INLINE FloatVector get(int64_t i, Lanes lanes) const {
    return join_master(load_half(high + i, lanes), load_half(rest + i, lanes));
  }
  template <class Lanes>
  HWY_INLINE void put(FloatVector x, int64_t i, Lanes lanes) const {
    const SplitVector split = split_master(x);
    store_half(split.high, high + i, lanes);
    store_half(split.rest, rest + i, lanes);
  }
};

// Calls function(weight, T{}) with the weight's form and the gradient's type.
template <class Function>
HWY_INLINE void with_weight(const WeightView& view, DType gradient_dtype, const Function& function) {
  with_storage(gradient_dtype, [&](auto type) {
    if (view.value != nullptr) {
      function(PlainWeight{view.value}, type);
    } else {
      function(SplitWeight{&view.high->bits, reinterpret_cast<uint16_t*>(view.rest)}, type);
    }
  });
}

void adamw_range(const AdamWTensor& tensor, const AdamWStep& step, int64_t begin, int64_t count) {
  const FloatVector decay = set(static_cast<float>(1.0 - step.learning_rate * double{tensor.weight_decay}));
  float* first = tensor.m;
  float* second = tensor.v;
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_columns(begin, begin + count, [&](int64_t i, auto lanes) {
      const FloatVector g = hn::Mul(load(gradient + i, lanes), set(step.gradient_scale));
      FloatVector m = load(first + i, lanes);
      m = hn::MulAdd(hn::Sub(g, m), set(step.beta1_rest), m);
      const FloatVector square = hn::Mul(hn::Mul(g, g), set(step.beta2_rest));
      const FloatVector v = hn::MulAdd(load(second + i, lanes), set(step.beta2), square);
      const FloatVector denominator = hn::MulAdd(hn::Sqrt(v), set(step.second_scale), set(step.epsilon));
      const FloatVector direction = hn::Div(m, denominator);
      const FloatVector w = hn::Mul(weight.get(i, lanes), decay);
      store(m, first + i, lanes);
      store(v, second + i, lanes);
      weight.put(hn::NegMulAdd(direction, set(step.step_size), w), i, lanes);
    });
  });
}

void sgd_range(const SgdTensor& tensor, const SgdStep& step, int64_t begin, int64_t count) {
  float* buffer = tensor.momentum_buffer;
  const FloatVector momentum = set(step.momentum);
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_columns(begin, begin + count, [&](int64_t i, auto lanes) {
      const FloatVector w = weight.get(i, lanes);
      FloatVector g = hn::Mul(load(gradient + i, lanes), set(step.gradient_scale));
      g = hn::MulAdd(w, set(tensor.weight_decay), g);
      if (buffer != nullptr) {
        const FloatVector b = hn::MulAdd(load(buffer + i, lanes), momentum, g);
        store(b, buffer + i, lanes);
        g = step.nesterov ? hn::MulAdd(b, momentum, g) : b;
      }
      weight.put(hn::NegMulAdd(g, set(step.learning_rate), w), i, lanes);
    });
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(adamw_range);
HWY_EXPORT(sgd_range);

bool skipped(const UpdateScalars& scalars) {
  return scalars.skip != nullptr && *scalars.skip != 0;
}

float gradient_scale(const UpdateScalars& scalars) {
  return scalars.gradient_scale == nullptr ? 1.0F : *scalars.gradient_scale;
}

template <class Tensor>
void check_tensor(const Tensor& tensor, const char* what) {
  check_storage(tensor.gradient_dtype, what);
  const WeightView& weight = tensor.weight;
  const bool split = weight.high != nullptr && weight.rest != nullptr;
  CHECK(tensor.count == 0 || (weight.value != nullptr) != split,
        "[{}] expected a float32 weight or both halves of a split one, got neither or both", what);
}

}  // namespace

void adamw_update(std::span<const AdamWTensor> tensors, const AdamWConstants& constants,
                  const UpdateScalars& scalars, const uint32_t* applied_updates) {
  for (const AdamWTensor& tensor : tensors) check_tensor(tensor, "adamw");
  if (skipped(scalars)) return;
  const double t = static_cast<double>(*applied_updates) + 1.0;
  const double learning_rate = static_cast<double>(*scalars.learning_rate);
  const AdamWStep step{
      .learning_rate = learning_rate,
      .beta1_rest = static_cast<float>(1.0 - constants.beta1),
      .beta2 = static_cast<float>(constants.beta2),
      .beta2_rest = static_cast<float>(1.0 - constants.beta2),
      .epsilon = static_cast<float>(constants.epsilon),
      .step_size = static_cast<float>(learning_rate / (1.0 - std::pow(constants.beta1, t))),
      .second_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(constants.beta2, t))),
      .gradient_scale = gradient_scale(scalars),
  };
  parallel_chunks(
      tensors, [](const AdamWTensor& tensor) { return tensor.count; },
      [&](const AdamWTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(adamw_range)(tensor, step, begin, count);
      });
}

void sgd_update(std::span<const SgdTensor> tensors, const SgdConstants& constants,
                const UpdateScalars& scalars) {
  for (const SgdTensor& tensor : tensors) {
    check_tensor(tensor, "sgd");
    CHECK(tensor.count == 0 || (tensor.momentum_buffer != nullptr) == (constants.momentum != 0.0F),
          "[sgd] expected a momentum buffer where there is momentum and only there, momentum is {}",
          constants.momentum);
  }
  if (skipped(scalars)) return;
  const SgdStep step{.learning_rate = *scalars.learning_rate,
                     .momentum = constants.momentum,
                     .nesterov = constants.nesterov,
                     .gradient_scale = gradient_scale(scalars)};
  parallel_chunks(
      tensors, [](const SgdTensor& tensor) { return tensor.count; },
      [&](const SgdTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(sgd_range)(tensor, step, begin, count);
      });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
