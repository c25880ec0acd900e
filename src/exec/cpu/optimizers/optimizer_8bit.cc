#include "exec/cpu/optimizers/optimizer_8bit.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "exec/cpu/parallel.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizers/optimizer_8bit.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/optimizers/weight_forms-inl.h"
#include "exec/cpu/simd/dynamic_map-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_OPTIMIZER_8BIT_COMMON_
#define SHOEHORN_EXEC_CPU_OPTIMIZER_8BIT_COMMON_

namespace shoehorn::cpu {

// How many elements ahead to prefetch. A block has two passes over different streams, which is more than the
// hardware prefetcher follows.
inline constexpr int64_t kElementsAhead = 512;

// The factor of a gradient on its way into AdamW's moments; for the second moment, which adds the square, it
// is the root. Without clamping, the factor includes the gradient's own scale.
struct GradientShares {
  bool is_cut;
  float first;
  float second_root;
};
inline GradientShares gradient_shares(const AdamWStep& step) {
  const bool is_cut = std::isfinite(step.gradient.most);
  const float scale = is_cut ? 1.0F : step.gradient.scale;
  return {is_cut, scale * step.beta1_rest, scale * std::sqrt(step.beta2_rest)};
}

// AdamW divides a first moment by root * sqrt(second moment) + epsilon, with the step size folded in. If the
// step size is so small that its inverse is not finite, nothing moves.
struct MoveDivisor {
  float root;
  float epsilon;
};
inline MoveDivisor move_divisor(const AdamWStep& step) {
  constexpr float kLeastStep = 1e-30F;
  if (step.step_size < kLeastStep) return {0.0F, std::numeric_limits<float>::infinity()};
  return {step.second_scale / step.step_size, step.epsilon / step.step_size};
}

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

// The number of blocks that take each pass together. The first pass ends with a search for the largest
// number, a chain of dependent operations; meanwhile the other blocks keep the processor busy.
inline constexpr int64_t kBlocksTogether = 4;
inline constexpr int64_t kElementsTogether = kBlocksTogether * kStateBlock;

// One state of such blocks: numbers as the first pass leaves them, by element and by block.
template <bool kSigned>
struct Moments {
  uint8_t* codes;  // of the first element
  float* scales;   // of the first block
  HWY_ALIGN float values[kElementsTogether];
  HWY_ALIGN float largest[kBlocksTogether][hn::MaxLanes(FloatTag())];
  FloatVector inverse[kBlocksTogether];

  HWY_INLINE Moments(const EightBitTensor& tensor, size_t state, int64_t begin)
      : codes(tensor.codes[state] + begin), scales(tensor.scales[state] + begin / kStateBlock) {}

  static HWY_INLINE const DynamicMap& map() {
    return kSigned ? signed_dynamic_map() : unsigned_dynamic_map();
  }
  HWY_INLINE NumberLines numbers(int64_t block, float factor) const {
    return number_lines<kSigned>(map(), scales[block] * factor);
  }
  template <size_t kVectors, class Lanes>
  HWY_INLINE auto get(const NumberLines& lines, int64_t i, Lanes lanes) const {
    hwy::Prefetch(codes + i + kElementsAhead);
    return dequantize<kSigned, kVectors>(lines, codes + i, lanes);
  }
  // `most` becomes the largest magnitude of its block.
  template <size_t kVectors, class Lanes>
  HWY_INLINE void put(const std::array<FloatVector, kVectors>& x, int64_t i, FloatVector& most, Lanes lanes) {
    for (size_t k = 0; k < kVectors; ++k) most = larger<kSigned>(most, x[k], lanes);
    store_each(x, values + i, lanes);
  }
  HWY_INLINE void find_scales(int64_t blocks) {
    for (int64_t block = 0; block < blocks; ++block) {
      scales[block] = max_lanes(load(largest[block]));
      inverse[block] = inverse_scale(scales[block]);
    }
  }
};

template <size_t kVectors, class T, class Lanes>
HWY_INLINE auto load_gradients(const T* from, Lanes lanes) {
  for (size_t k = 0; k < kVectors; ++k)
    hwy::Prefetch(from + kElementsAhead + static_cast<int64_t>(k) * float_lanes());
  return load_each<kVectors>(from, lanes);
}

template <size_t kVectors>
HWY_INLINE auto formed(const std::array<FloatVector, kVectors>& gradients, const GradientForm& form) {
  return each<kVectors>([&](size_t k) { return formed(gradients[k], form); });
}

// Moves weights against `move`, after their decay.
template <size_t kVectors, class Weight, class Lanes>
HWY_INLINE void move_weights(const Weight& weight, const std::array<FloatVector, kVectors>& move,
                             FloatVector decay, int64_t i, Lanes lanes) {
  for (size_t k = 0; k < kVectors; ++k) {
    const int64_t place = i + static_cast<int64_t>(k) * float_lanes();
    weight.prefetch(place + kElementsAhead);
    weight.put(hn::MulSub(weight.get(place, lanes), decay, move[k]), place, lanes);
  }
}

// Calls body(begin, count) for parts of at most so many elements of a range that begins with a block.
template <class Body>
HWY_INLINE void for_parts(int64_t begin, int64_t count, int64_t part, const Body& body) {
  for (int64_t at = begin; at < begin + count; at += part) body(at, std::min(part, begin + count - at));
}

// Roots and divisions have an execution unit of their own: they start before the rounding, which needs none,
// and are used after it.
void adamw_8bit_range(const EightBitTensor& tensor, const AdamWStep& step, int64_t begin, int64_t count) {
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  const GradientShares shares = gradient_shares(step);
  const MoveDivisor divisor = move_divisor(step);
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    for_parts(begin, count, kElementsTogether, [&](int64_t first, int64_t together) {
      const T* gradient = static_cast<const T*>(tensor.gradient) + first;
      Moments<true> ms(tensor, 0, first);
      Moments<false> vs(tensor, 1, first);
      for_parts(0, together, kStateBlock, [&](int64_t at, int64_t size) {
        const int64_t block = at / kStateBlock;
        const NumberLines m_numbers = ms.numbers(block, step.beta1);
        const NumberLines v_numbers = vs.numbers(block, step.beta2);
        FloatVector m_most = set(0.0F), v_most = set(0.0F);
        for_vectors(size, [&](int64_t in_block, auto lanes, auto vectors) {
          const int64_t i = at + in_block;
          auto g = load_gradients<vectors>(gradient + i, lanes);
          if (shares.is_cut) g = formed(g, step.gradient);
          const auto m = ms.template get<vectors>(m_numbers, i, lanes);
          ms.put(each<vectors>([&](size_t k) { return hn::MulAdd(g[k], set(shares.first), m[k]); }), i,
                 m_most, lanes);
          const auto v = vs.template get<vectors>(v_numbers, i, lanes);
          const auto root = each<vectors>([&](size_t k) { return hn::Mul(g[k], set(shares.second_root)); });
          vs.put(each<vectors>([&](size_t k) { return hn::MulAdd(root[k], root[k], v[k]); }), i, v_most,
                 lanes);
        });
        store(m_most, ms.largest[block]);
        store(v_most, vs.largest[block]);
      });
      ms.find_scales(ceil_divide(together, kStateBlock));
      vs.find_scales(ceil_divide(together, kStateBlock));
      const CodeLines m_codes = code_lines(ms.map());
      const CodeLines v_codes = code_lines(vs.map());
      weight.draw(first, first + together);
      for_parts(0, together, kStateBlock, [&](int64_t at, int64_t size) {
        const FloatVector m_inverse = ms.inverse[at / kStateBlock];
        const FloatVector v_inverse = vs.inverse[at / kStateBlock];
        for_vectors(size, [&](int64_t in_block, auto lanes, auto vectors) {
          const int64_t i = at + in_block;
          const auto m = load_each<vectors>(ms.values + i, lanes);
          const auto v = load_each<vectors>(vs.values + i, lanes);
          const auto root = each<vectors>([&](size_t k) { return hn::Sqrt(v[k]); });
          const auto m_rounded = quantize<true>(m_codes, m, m_inverse);
          const auto move = each<vectors>([&](size_t k) {
            return hn::Div(m[k], hn::MulAdd(root[k], set(divisor.root), set(divisor.epsilon)));
          });
          const auto v_rounded = quantize<false>(v_codes, v, v_inverse);
          if constexpr (vectors == 2) {
            store_low_bytes(m_rounded, ms.codes + i, v_rounded, vs.codes + i);
          } else {
            store_low_bytes(m_rounded, ms.codes + i, lanes);
            store_low_bytes(v_rounded, vs.codes + i, lanes);
          }
          move_weights(weight, move, decay, first + i, lanes);
        });
        clear_if_zero(ms.scales[at / kStateBlock], ms.codes + at, size);
        clear_if_zero(vs.scales[at / kStateBlock], vs.codes + at, size);
      });
    });
  });
}

void lion_8bit_range(const EightBitTensor& tensor, const LionStep& step, int64_t begin, int64_t count) {
  const FloatVector decay = set(weight_factor(step.learning_rate, tensor.weight_decay));
  with_weight(tensor.weight, tensor.gradient_dtype, [&](auto weight, auto type) {
    using T = decltype(type);
    for_parts(begin, count, kElementsTogether, [&](int64_t first, int64_t together) {
      const T* gradient = static_cast<const T*>(tensor.gradient) + first;
      Moments<true> ms(tensor, 0, first);
      weight.draw(first, first + together);
      for_parts(0, together, kStateBlock, [&](int64_t at, int64_t size) {
        const NumberLines m_numbers = ms.numbers(at / kStateBlock, 1.0F);
        FloatVector m_most = set(0.0F);
        for_vectors(size, [&](int64_t in_block, auto lanes, auto vectors) {
          const int64_t i = at + in_block;
          const auto g = formed(load_gradients<vectors>(gradient + i, lanes), step.gradient);
          const auto m = ms.template get<vectors>(m_numbers, i, lanes);
          ms.put(each<vectors>([&](size_t k) {
                   return hn::MulAdd(g[k], set(step.beta2_rest), hn::Mul(m[k], set(step.beta2)));
                 }),
                 i, m_most, lanes);
          const auto direction = each<vectors>([&](size_t k) {
            const auto sum = hn::Add(hn::Mul(m[k], set(step.beta1)), hn::Mul(g[k], set(step.beta1_rest)));
            return hn::Mul(sign(sum), set(step.learning_rate));
          });
          move_weights(weight, direction, decay, first + i, lanes);
        });
        store(m_most, ms.largest[at / kStateBlock]);
      });
      ms.find_scales(ceil_divide(together, kStateBlock));
      const CodeLines m_codes = code_lines(ms.map());
      for_parts(0, together, kStateBlock, [&](int64_t at, int64_t size) {
        const FloatVector m_inverse = ms.inverse[at / kStateBlock];
        for_vectors(size, [&](int64_t in_block, auto lanes, auto vectors) {
          const int64_t i = at + in_block;
          const auto m = load_each<vectors>(ms.values + i, lanes);
          store_low_bytes(quantize<true>(m_codes, m, m_inverse), ms.codes + i, lanes);
        });
        clear_if_zero(ms.scales[at / kStateBlock], ms.codes + at, size);
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
