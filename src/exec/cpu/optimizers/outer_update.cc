#include "exec/cpu/optimizers/outer_update.h"

#include "base/error.h"
#include "exec/cpu/parallel.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizers/outer_update.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/optimizers/weight_forms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

void outer_start_range(const OuterTensor& tensor, int64_t begin, int64_t end) {
  with_weight(tensor.weight, DType::kF32, [&](auto weight, auto) {
    for_weight_elements(weight, begin, end,
                        [&](int64_t i, auto lanes) { store(weight.get(i, lanes), tensor.start + i, lanes); });
  });
}

void outer_gradient_range(const OuterTensor& tensor, float* gradient, int64_t begin, int64_t end) {
  with_weight(tensor.weight, DType::kF32, [&](auto weight, auto) {
    for_weight_elements(weight, begin, end, [&](int64_t i, auto lanes) {
      store(hn::Sub(load(tensor.start + i, lanes), weight.get(i, lanes)), gradient + i, lanes);
    });
  });
}

void outer_update_range(const OuterTensor& tensor, const float* sum, const OuterUpdateAttributes& attributes,
                        int64_t begin, int64_t end) {
  const FloatVector ranks = set(static_cast<float>(attributes.ranks));
  const FloatVector learning_rate = set(attributes.learning_rate);
  const FloatVector factor = set(attributes.momentum);
  with_weight(tensor.weight, DType::kF32, [&](auto weight, auto) {
    for_weight_elements(weight, begin, end, [&](int64_t i, auto lanes) {
      const FloatVector g = hn::Div(load(sum + i, lanes), ranks);
      FloatVector direction = g;
      if (tensor.momentum != nullptr) {
        const FloatVector m = hn::MulAdd(load(tensor.momentum + i, lanes), factor, g);
        store(m, tensor.momentum + i, lanes);
        direction = hn::MulAdd(m, factor, g);
      }
      const FloatVector w = hn::NegMulAdd(direction, learning_rate, load(tensor.start + i, lanes));
      store(w, tensor.start + i, lanes);
      weight.put(w, i, lanes);
    });
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(outer_start_range);
HWY_EXPORT(outer_gradient_range);
HWY_EXPORT(outer_update_range);

void check_outer(const OuterTensor& tensor, const char* what) {
  check_update(tensor.weight, DType::kF32, tensor.count, what);
  CHECK(tensor.weight.rounding.step == nullptr, "[{}] expected a weight with a master, got one without",
        what);
}

}  // namespace

void outer_start(const OuterTensor& tensor) {
  check_outer(tensor, "outer_start");
  const auto range = HWY_DYNAMIC_DISPATCH(outer_start_range);
  parallel_ranges(tensor.count, kElementsPerChunk,
                  [&](int64_t begin, int64_t end) { range(tensor, begin, end); });
}

void outer_gradient(const OuterTensor& tensor, float* gradient) {
  check_outer(tensor, "outer_gradient");
  const auto range = HWY_DYNAMIC_DISPATCH(outer_gradient_range);
  parallel_ranges(tensor.count, kElementsPerChunk,
                  [&](int64_t begin, int64_t end) { range(tensor, gradient, begin, end); });
}

void outer_update(const OuterTensor& tensor, const float* sum, const OuterUpdateAttributes& attributes) {
  check_outer(tensor, "outer_update");
  const auto range = HWY_DYNAMIC_DISPATCH(outer_update_range);
  parallel_ranges(tensor.count, kElementsPerChunk,
                  [&](int64_t begin, int64_t end) { range(tensor, sum, attributes, begin, end); });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
