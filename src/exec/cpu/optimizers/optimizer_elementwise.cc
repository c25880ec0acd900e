#include "exec/cpu/optimizers/optimizer_elementwise.h"

#include "exec/cpu/parallel.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizers/optimizer_elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/optimizers/weight_forms-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_OPTIMIZER_ELEMENTWISE_COMMON_
#define SHOEHORN_EXEC_CPU_OPTIMIZER_ELEMENTWISE_COMMON_

namespace shoehorn::cpu {

// A step's scalars, worked out in double as PyTorch does.
struct ElementwiseStep {
  GradientForm gradient = {};
  float learning_rate = 0;
  float epsilon = 0;
  float first = 0;       // alpha, or Lion's beta1
  float first_rest = 0;  // 1 - first
  float second = 0;      // Lion's beta2
  float second_rest = 0;
  float momentum = 0;
  bool centered = false;
};

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_OPTIMIZER_ELEMENTWISE_COMMON_

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Calls body(weight, gradient, i, lanes) for a range of elements; gradients are scaled.
template <class Body>
HWY_INLINE void for_elements(const StatefulTensor& tensor, const ElementwiseStep& step, int64_t begin,
                             int64_t count, const Body& body) {
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_weight_elements(weight, begin, begin + count, [&](int64_t i, auto lanes) {
      body(weight, formed(load(gradient + i, lanes), step.gradient), i, lanes);
    });
  });
}

void adagrad_range(const StatefulTensor& tensor, const ElementwiseStep& step, int64_t begin, int64_t count) {
  float* sum = tensor.states[0];
  for_elements(tensor, step, begin, count, [&](auto weight, FloatVector scaled, int64_t i, auto lanes) {
    const FloatVector w = weight.get(i, lanes);
    const FloatVector g = hn::MulAdd(w, set(tensor.weight_decay), scaled);
    const FloatVector s = hn::MulAdd(g, g, load(sum + i, lanes));
    store(s, sum + i, lanes);
    const FloatVector direction = hn::Div(g, hn::Add(hn::Sqrt(s), set(step.epsilon)));
    weight.put(hn::NegMulAdd(direction, set(step.learning_rate), w), i, lanes);
  });
}

void rmsprop_range(const StatefulTensor& tensor, const ElementwiseStep& step, int64_t begin, int64_t count) {
  float* square_avg = tensor.states[0];
  float* buffer = step.momentum != 0.0F ? tensor.states[1] : nullptr;
  float* grad_avg = step.centered ? tensor.states[step.momentum != 0.0F ? 2 : 1] : nullptr;
  for_elements(tensor, step, begin, count, [&](auto weight, FloatVector scaled, int64_t i, auto lanes) {
    const FloatVector w = weight.get(i, lanes);
    const FloatVector g = hn::MulAdd(w, set(tensor.weight_decay), scaled);
    const FloatVector square = hn::Mul(hn::Mul(g, g), set(step.first_rest));
    const FloatVector s = hn::MulAdd(load(square_avg + i, lanes), set(step.first), square);
    store(s, square_avg + i, lanes);
    FloatVector variance = s;
    if (grad_avg != nullptr) {
      FloatVector average = load(grad_avg + i, lanes);
      average = hn::MulAdd(hn::Sub(g, average), set(step.first_rest), average);
      store(average, grad_avg + i, lanes);
      variance = hn::NegMulAdd(average, average, s);
    }
    FloatVector direction = hn::Div(g, hn::Add(hn::Sqrt(variance), set(step.epsilon)));
    if (buffer != nullptr) {
      direction = hn::MulAdd(load(buffer + i, lanes), set(step.momentum), direction);
      store(direction, buffer + i, lanes);
    }
    weight.put(hn::NegMulAdd(direction, set(step.learning_rate), w), i, lanes);
  });
}

void lion_range(const StatefulTensor& tensor, const ElementwiseStep& step, int64_t begin, int64_t count) {
  float* exp_avg = tensor.states[0];
  const FloatVector decay = set(1.0F - step.learning_rate * tensor.weight_decay);
  for_elements(tensor, step, begin, count, [&](auto weight, FloatVector g, int64_t i, auto lanes) {
    const FloatVector m = load(exp_avg + i, lanes);
    const FloatVector sum = hn::MulAdd(m, set(step.first), hn::Mul(g, set(step.first_rest)));
    store(hn::MulAdd(m, set(step.second), hn::Mul(g, set(step.second_rest))), exp_avg + i, lanes);
    const FloatVector w = hn::Mul(weight.get(i, lanes), decay);
    weight.put(hn::NegMulAdd(sign(sum), set(step.learning_rate), w), i, lanes);
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(adagrad_range);
HWY_EXPORT(rmsprop_range);
HWY_EXPORT(lion_range);

// range(tensor, begin, count) on all chunks.
template <class Range>
void update_all(std::span<const StatefulTensor> tensors, const Range& range) {
  parallel_chunks(
      tensors, [](const StatefulTensor& tensor) { return tensor.count; },
      [&](const StatefulTensor& tensor, int64_t begin, int64_t count, int64_t) {
        range(tensor, begin, count);
      });
}

}  // namespace

void adagrad_update(std::span<const StatefulTensor> tensors, const AdagradSettings& settings,
                    const UpdateScalars& scalars, const uint32_t* applied_updates) {
  check_updates(tensors, 1, "adagrad");
  if (is_skipped(scalars)) return;
  ElementwiseStep step;
  step.gradient = gradient_form(scalars);
  step.learning_rate = static_cast<float>(static_cast<double>(*scalars.learning_rate) /
                                          (1.0 + static_cast<double>(*applied_updates) * settings.lr_decay));
  step.epsilon = static_cast<float>(settings.epsilon);
  const auto range = HWY_DYNAMIC_DISPATCH(adagrad_range);
  update_all(tensors, [&](const StatefulTensor& tensor, int64_t begin, int64_t count) {
    range(tensor, step, begin, count);
  });
}

void rmsprop_update(std::span<const StatefulTensor> tensors, const RmsPropSettings& settings,
                    const UpdateScalars& scalars) {
  check_updates(tensors, size_t{1} + (settings.momentum != 0 ? 1 : 0) + (settings.centered ? 1 : 0),
                "rmsprop");
  if (is_skipped(scalars)) return;
  ElementwiseStep step;
  step.gradient = gradient_form(scalars);
  step.learning_rate = *scalars.learning_rate;
  step.epsilon = static_cast<float>(settings.epsilon);
  step.first = static_cast<float>(settings.alpha);
  step.first_rest = static_cast<float>(1.0 - settings.alpha);
  step.momentum = static_cast<float>(settings.momentum);
  step.centered = settings.centered;
  const auto range = HWY_DYNAMIC_DISPATCH(rmsprop_range);
  update_all(tensors, [&](const StatefulTensor& tensor, int64_t begin, int64_t count) {
    range(tensor, step, begin, count);
  });
}

void lion_update(std::span<const StatefulTensor> tensors, const LionSettings& settings,
                 const UpdateScalars& scalars) {
  check_updates(tensors, 1, "lion");
  if (is_skipped(scalars)) return;
  ElementwiseStep step;
  step.gradient = gradient_form(scalars);
  step.learning_rate = *scalars.learning_rate;
  step.first = static_cast<float>(settings.beta1);
  step.first_rest = static_cast<float>(1.0 - settings.beta1);
  step.second = static_cast<float>(settings.beta2);
  step.second_rest = static_cast<float>(1.0 - settings.beta2);
  const auto range = HWY_DYNAMIC_DISPATCH(lion_range);
  update_all(tensors, [&](const StatefulTensor& tensor, int64_t begin, int64_t count) {
    range(tensor, step, begin, count);
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
