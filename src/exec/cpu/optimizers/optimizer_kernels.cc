#include "exec/cpu/optimizers/optimizer_kernels.h"

#include <cmath>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizers/optimizer_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/optimizers/weight_forms-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_OPTIMIZER_KERNELS_COMMON_
#define SHOEHORN_EXEC_CPU_OPTIMIZER_KERNELS_COMMON_

namespace shoehorn::cpu {

struct SgdStep {
  float learning_rate;
  float momentum;
  bool nesterov;
  GradientForm gradient;
};

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_OPTIMIZER_KERNELS_COMMON_

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Elements that are asked for before they are read: 16 lines, where that is fastest.
constexpr int64_t kAhead = 256;

void adamw_range(const StatefulTensor& tensor, const AdamWStep& step, int64_t begin, int64_t count) {
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  float* first = tensor.states[0];
  float* second = tensor.states[1];
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_weight_elements(weight, begin, begin + count, [&](int64_t i, auto lanes) {
      hwy::Prefetch(gradient + i + kAhead);
      hwy::Prefetch(first + i + kAhead);
      hwy::Prefetch(second + i + kAhead);
      weight.prefetch(i + kAhead);
      const FloatVector g = formed(load(gradient + i, lanes), step.gradient);
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

void sgd_range(const StatefulTensor& tensor, const SgdStep& step, int64_t begin, int64_t count) {
  float* buffer = tensor.states[0];
  const FloatVector momentum = set(step.momentum);
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_weight_elements(weight, begin, begin + count, [&](int64_t i, auto lanes) {
      const FloatVector w = weight.get(i, lanes);
      FloatVector g = formed(load(gradient + i, lanes), step.gradient);
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

}  // namespace

void check_update(const WeightView& weight, DType gradient_dtype, int64_t count, const char* what) {
  check_storage(gradient_dtype, what);
  const int forms = (weight.value != nullptr ? 1 : 0) +
                    (weight.high != nullptr && weight.rest != nullptr ? 1 : 0) +
                    (weight.high != nullptr && weight.rounding.step != nullptr ? 1 : 0);
  CHECK(count == 0 || forms == 1,
        "[{}] expected a float32 weight, both halves of a split one or a bfloat16 with a rounding, got {} of "
        "these",
        what, forms);
  CHECK(weight.rounding.first_element + count <= kMaxRoundedElements || weight.rounding.step == nullptr,
        "[{}] expected a rounded parameter of at most {} elements, got more", what, kMaxRoundedElements);
}

void check_updates(std::span<const StatefulTensor> tensors, size_t states, const char* what) {
  for (const StatefulTensor& tensor : tensors) {
    check_update(tensor.weight, tensor.gradient_dtype, tensor.count, what);
    for (size_t i = 0; i < tensor.states.size(); ++i) {
      CHECK(tensor.count == 0 || (tensor.states[i] != nullptr) == (i < states),
            "[{}] expected {} states, got another number", what, states);
    }
  }
}

AdamWStep adamw_step(const AdamWSettings& settings, const UpdateScalars& scalars, uint32_t applied_updates) {
  const double t = static_cast<double>(applied_updates) + 1.0;
  const double learning_rate = static_cast<double>(*scalars.learning_rate);
  return {
      .learning_rate = learning_rate,
      .beta1 = static_cast<float>(settings.beta1),
      .beta1_rest = static_cast<float>(1.0 - settings.beta1),
      .beta2 = static_cast<float>(settings.beta2),
      .beta2_rest = static_cast<float>(1.0 - settings.beta2),
      .epsilon = static_cast<float>(settings.epsilon),
      .step_size = static_cast<float>(learning_rate / (1.0 - std::pow(settings.beta1, t))),
      .second_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(settings.beta2, t))),
      .gradient = gradient_form(scalars),
  };
}

void adamw_update(std::span<const StatefulTensor> tensors, const AdamWSettings& settings,
                  const UpdateScalars& scalars, const uint32_t* applied_updates) {
  check_updates(tensors, 2, "adamw");
  if (is_skipped(scalars)) return;
  const AdamWStep step = adamw_step(settings, scalars, *applied_updates);
  parallel_chunks(
      tensors, [](const StatefulTensor& tensor) { return tensor.count; },
      [&](const StatefulTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(adamw_range)(tensor, step, begin, count);
      });
}

void sgd_update(std::span<const StatefulTensor> tensors, const SgdSettings& settings,
                const UpdateScalars& scalars) {
  check_updates(tensors, settings.momentum != 0 ? 1 : 0, "sgd");
  if (is_skipped(scalars)) return;
  const SgdStep step{.learning_rate = *scalars.learning_rate,
                     .momentum = static_cast<float>(settings.momentum),
                     .nesterov = settings.nesterov,
                     .gradient = gradient_form(scalars)};
  parallel_chunks(
      tensors, [](const StatefulTensor& tensor) { return tensor.count; },
      [&](const StatefulTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(sgd_range)(tensor, step, begin, count);
      });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
