#include "exec/cpu/optimizer_8bit.h"

#include "base/error.h"
#include "exec/cpu/parallel.h"

#include "exec/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizer_8bit.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/dynamic_map-inl.h"
#include "exec/cpu/weight_forms-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_OPTIMIZER_8BIT_COMMON_
#define SHOEHORN_EXEC_CPU_OPTIMIZER_8BIT_COMMON_

namespace shoehorn::cpu {

struct LionStep {
  float learning_rate;
  float beta1;
  float beta1_rest;  // 1 - beta1
  float beta2;
  float beta2_rest;
  float gradient_scale;
};

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_OPTIMIZER_8BIT_COMMON_

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// The moments of one block between their codes.
struct Moments {
  HWY_ALIGN float values[kStateBlock];
  FloatVector largest;

  HWY_INLINE Moments() : largest(set(0.0F)) {}
  template <class Lanes>
  HWY_INLINE void put(FloatVector x, int64_t i, Lanes lanes) {
    largest = max_magnitude(largest, x, lanes);
    store(x, values + i, lanes);
  }
  template <bool kSigned>
  HWY_INLINE void quantize(const DynamicMap& map, int64_t count, uint8_t* codes, float* scale) const {
    *scale = max_lanes(largest);
    quantize_block<kSigned>(map, values, count, *scale, codes);
  }
};

// Calls body(block, begin, count) for the blocks of a range that begins with one.
template <class Body>
HWY_INLINE void for_blocks(int64_t begin, int64_t count, const Body& body) {
  for (int64_t at = begin; at < begin + count; at += kStateBlock)
    body(at / kStateBlock, at, std::min(kStateBlock, begin + count - at));
}

void adamw_8bit_range(const EightBitTensor& tensor, const AdamWStep& step, int64_t begin, int64_t count) {
  const DynamicMap& signed_map = signed_dynamic_map();
  const DynamicMap& unsigned_map = unsigned_dynamic_map();
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  uint8_t* first = tensor.codes[0];
  uint8_t* second = tensor.codes[1];
  float* first_scale = tensor.scales[0];
  float* second_scale = tensor.scales[1];
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_blocks(begin, count, [&](int64_t block, int64_t at, int64_t size) {
      Moments ms, vs;
      const FloatVector m_scale = set(first_scale[block]), v_scale = set(second_scale[block]);
      weight.draw(at, at + size);
      for_columns(0, size, [&](int64_t i, auto lanes) {
        const FloatVector g = hn::Mul(load(gradient + at + i, lanes), set(step.gradient_scale));
        FloatVector m = dequantize<true>(signed_map, first + at + i, m_scale, lanes);
        m = hn::MulAdd(g, set(step.beta1_rest), hn::Mul(m, set(step.beta1)));
        FloatVector v = dequantize<false>(unsigned_map, second + at + i, v_scale, lanes);
        v = hn::MulAdd(hn::Mul(g, set(step.beta2_rest)), g, hn::Mul(v, set(step.beta2)));
        ms.put(m, i, lanes);
        vs.put(v, i, lanes);
        const FloatVector denominator = hn::MulAdd(hn::Sqrt(v), set(step.second_scale), set(step.epsilon));
        const FloatVector w = hn::Mul(weight.get(at + i, lanes), decay);
        weight.put(hn::NegMulAdd(hn::Div(m, denominator), set(step.step_size), w), at + i, lanes);
      });
      ms.quantize<true>(signed_map, size, first + at, first_scale + block);
      vs.quantize<false>(unsigned_map, size, second + at, second_scale + block);
    });
  });
}

void lion_8bit_range(const EightBitTensor& tensor, const LionStep& step, int64_t begin, int64_t count) {
  const DynamicMap& map = signed_dynamic_map();
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  uint8_t* codes = tensor.codes[0];
  float* scales = tensor.scales[0];
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_blocks(begin, count, [&](int64_t block, int64_t at, int64_t size) {
      Moments ms;
      const FloatVector scale = set(scales[block]);
      weight.draw(at, at + size);
      for_columns(0, size, [&](int64_t i, auto lanes) {
        const FloatVector g = hn::Mul(load(gradient + at + i, lanes), set(step.gradient_scale));
        const FloatVector m = dequantize<true>(map, codes + at + i, scale, lanes);
        const FloatVector sum = hn::Add(hn::Mul(m, set(step.beta1)), hn::Mul(g, set(step.beta1_rest)));
        ms.put(hn::MulAdd(g, set(step.beta2_rest), hn::Mul(m, set(step.beta2))), i, lanes);
        const FloatVector w = hn::Mul(weight.get(at + i, lanes), decay);
        weight.put(hn::NegMulAdd(sign(sum), set(step.learning_rate), w), at + i, lanes);
      });
      ms.quantize<true>(map, size, codes + at, scales + block);
    });
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

static_assert(kElementsPerChunk % kStateBlock == 0, "a chunk begins with a block");

HWY_EXPORT(adamw_8bit_range);
HWY_EXPORT(lion_8bit_range);

void check_tensors(std::span<const EightBitTensor> tensors, size_t states, const char* what) {
  for (const EightBitTensor& tensor : tensors) {
    check_update(tensor.weight, tensor.gradient_dtype, tensor.count, what);
    for (size_t i = 0; i < tensor.codes.size(); ++i) {
      const bool wanted = i < states;
      CHECK(tensor.count == 0 ||
                ((tensor.codes[i] != nullptr) == wanted && (tensor.scales[i] != nullptr) == wanted),
            "[{}] expected {} states with their scales, got another number", what, states);
    }
  }
}

}  // namespace

void adamw_8bit_update(std::span<const EightBitTensor> tensors, const AdamWSettings& settings,
                       const UpdateScalars& scalars, const uint32_t* applied_updates) {
  check_tensors(tensors, 2, "adamw_8bit");
  if (is_skipped(scalars)) return;
  const AdamWStep step = adamw_step(settings, scalars, *applied_updates);
  parallel_chunks(
      tensors, [](const EightBitTensor& tensor) { return tensor.count; },
      [&](const EightBitTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(adamw_8bit_range)(tensor, step, begin, count);
      });
}

void lion_8bit_update(std::span<const EightBitTensor> tensors, const LionSettings& settings,
                      const UpdateScalars& scalars) {
  check_tensors(tensors, 1, "lion_8bit");
  if (is_skipped(scalars)) return;
  const LionStep step{.learning_rate = *scalars.learning_rate,
                      .beta1 = static_cast<float>(settings.beta1),
                      .beta1_rest = static_cast<float>(1.0 - settings.beta1),
                      .beta2 = static_cast<float>(settings.beta2),
                      .beta2_rest = static_cast<float>(1.0 - settings.beta2),
                      .gradient_scale = gradient_scale(scalars)};
  parallel_chunks(
      tensors, [](const EightBitTensor& tensor) { return tensor.count; },
      [&](const EightBitTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(lion_8bit_range)(tensor, step, begin, count);
      });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
