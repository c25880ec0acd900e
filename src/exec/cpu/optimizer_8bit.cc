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
  GradientForm gradient;
};

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_OPTIMIZER_8BIT_COMMON_

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// One state of a block: moments are got from codes, put as they become, and rounded to codes again when all
// are known. All take several vectors at a time.
template <bool kSigned>
struct Moments {
  const DynamicMap& map;
  uint8_t* codes;
  float* block_scale;
  FloatVector scale;  // of the codes; when they are rounded, one over it
  FloatVector largest;
  float* values;  // [kStateBlock] as they were put

  HWY_INLINE Moments(const EightBitTensor& tensor, size_t state, int64_t begin, float* buffer)
      : map(kSigned ? signed_dynamic_map() : unsigned_dynamic_map()),
        codes(tensor.codes[state] + begin),
        block_scale(tensor.scales[state] + begin / kStateBlock),
        scale(set(*block_scale)),
        largest(set(0.0F)),
        values(buffer) {}
  template <size_t kVectors, class Lanes>
  HWY_INLINE auto get(int64_t i, Lanes lanes) const {
    return dequantize<kSigned, kVectors>(map, codes + i, scale, lanes);
  }
  template <size_t kVectors, class Lanes>
  HWY_INLINE void put(const std::array<FloatVector, kVectors>& x, int64_t i, Lanes lanes) {
    for (size_t k = 0; k < kVectors; ++k) largest = max_magnitude<kSigned>(largest, x[k], lanes);
    store_each(x, values + i, lanes);
  }
  HWY_INLINE void find_scale() {
    *block_scale = max_lanes(largest);
    scale = set(1.0F / *block_scale);
  }
  template <size_t kVectors, class Lanes>
  HWY_INLINE auto as_put(int64_t i, Lanes lanes) const {
    return load_each<kVectors>(values + i, lanes);
  }
  template <size_t kVectors, class Lanes>
  HWY_INLINE void round(const std::array<FloatVector, kVectors>& x, int64_t i, Lanes lanes) const {
    quantize<kSigned, kVectors>(map, x, scale, codes + i, lanes);
  }
};

// Calls body(begin, count) for the blocks of a range that begins with one.
template <class Body>
HWY_INLINE void for_blocks(int64_t begin, int64_t count, const Body& body) {
  for (int64_t at = begin; at < begin + count; at += kStateBlock)
    body(at, std::min(kStateBlock, begin + count - at));
}

// Roots and divisions have a unit of their own: they are begun before the rounding, which needs none, and
// used behind it.
void adamw_8bit_range(const EightBitTensor& tensor, const AdamWStep& step, int64_t begin, int64_t count) {
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_blocks(begin, count, [&](int64_t at, int64_t size) {
      weight.draw(at, at + size);
      HWY_ALIGN float m_buffer[kStateBlock], v_buffer[kStateBlock];
      Moments<true> ms(tensor, 0, at, m_buffer);
      Moments<false> vs(tensor, 1, at, v_buffer);
      for_vectors(size, [&](int64_t i, auto lanes, auto vectors) {
        const auto g = load_each<vectors>(gradient + at + i, lanes);
        const auto scaled = each<vectors>([&](size_t k) { return formed(g[k], step.gradient); });
        const auto m = ms.template get<vectors>(i, lanes);
        ms.put(each<vectors>([&](size_t k) {
                 return hn::MulAdd(scaled[k], set(step.beta1_rest), hn::Mul(m[k], set(step.beta1)));
               }),
               i, lanes);
        const auto v = vs.template get<vectors>(i, lanes);
        vs.put(each<vectors>([&](size_t k) {
                 const FloatVector share = hn::Mul(scaled[k], set(step.beta2_rest));
                 return hn::MulAdd(share, scaled[k], hn::Mul(v[k], set(step.beta2)));
               }),
               i, lanes);
      });
      ms.find_scale();
      vs.find_scale();
      for_vectors(size, [&](int64_t i, auto lanes, auto vectors) {
        const auto m = ms.template as_put<vectors>(i, lanes);
        const auto v = vs.template as_put<vectors>(i, lanes);
        const auto root = each<vectors>([&](size_t k) { return hn::Sqrt(v[k]); });
        ms.round(m, i, lanes);
        const auto direction = each<vectors>([&](size_t k) {
          return hn::Div(m[k], hn::MulAdd(root[k], set(step.second_scale), set(step.epsilon)));
        });
        vs.round(v, i, lanes);
        for (size_t k = 0; k < vectors; ++k) {
          const int64_t place = at + i + static_cast<int64_t>(k) * float_lanes();
          const FloatVector w = hn::Mul(weight.get(place, lanes), decay);
          weight.put(hn::NegMulAdd(direction[k], set(step.step_size), w), place, lanes);
        }
      });
    });
  });
}

void lion_8bit_range(const EightBitTensor& tensor, const LionStep& step, int64_t begin, int64_t count) {
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    const T* gradient = static_cast<const T*>(tensor.gradient);
    for_blocks(begin, count, [&](int64_t at, int64_t size) {
      weight.draw(at, at + size);
      HWY_ALIGN float buffer[kStateBlock];
      Moments<true> ms(tensor, 0, at, buffer);
      for_vectors(size, [&](int64_t i, auto lanes, auto vectors) {
        const auto g = load_each<vectors>(gradient + at + i, lanes);
        const auto scaled = each<vectors>([&](size_t k) { return formed(g[k], step.gradient); });
        const auto m = ms.template get<vectors>(i, lanes);
        ms.put(each<vectors>([&](size_t k) {
                 return hn::MulAdd(scaled[k], set(step.beta2_rest), hn::Mul(m[k], set(step.beta2)));
               }),
               i, lanes);
        for (size_t k = 0; k < vectors; ++k) {
          const int64_t place = at + i + static_cast<int64_t>(k) * float_lanes();
          const FloatVector sum =
              hn::Add(hn::Mul(m[k], set(step.beta1)), hn::Mul(scaled[k], set(step.beta1_rest)));
          const FloatVector w = hn::Mul(weight.get(place, lanes), decay);
          weight.put(hn::NegMulAdd(sign(sum), set(step.learning_rate), w), place, lanes);
        }
      });
      ms.find_scale();
      for_vectors(size, [&](int64_t i, auto lanes, auto vectors) {
        ms.round(ms.template as_put<vectors>(i, lanes), i, lanes);
      });
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
                      .gradient = gradient_form(scalars)};
  parallel_chunks(
      tensors, [](const EightBitTensor& tensor) { return tensor.count; },
      [&](const EightBitTensor& tensor, int64_t begin, int64_t count, int64_t) {
        HWY_DYNAMIC_DISPATCH(lion_8bit_range)(tensor, step, begin, count);
      });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
