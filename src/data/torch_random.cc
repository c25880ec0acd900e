#include "data/torch_random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

namespace shoehorn {
namespace {

// Two rows of eight lanes make the block of 16 that PyTorch's kernel transforms at once: row 0 gives the
// radii, row 1 the angles. Products and sums below are fused or not fused exactly as in that kernel's machine
// code.
constexpr int kLanes = 8;

// Natural logarithm of a normal number in (0, 1]: Cephes logf.
[[gnu::always_inline]] inline float cephes_log(float x) {
  // Not std::bit_cast: GCC does not inline it into a function with another target.
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(x));
  auto exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126);
  bits = (bits & 0x007fffffU) | 0x3f000000U;
  float m = 0;  // the mantissa, in [0.5, 1)
  std::memcpy(&m, &bits, sizeof(m));
  const bool low = m < 0.707106781186547524F;
  exponent -= low ? 1.0F : 0.0F;
  m = (m - 1.0F) + (low ? m : 0.0F);

  const float square = m * m;
  float y = 7.0376836292e-2F;
  y = std::fma(y, m, -1.1514610310e-1F);
  y = std::fma(y, m, 1.1676998740e-1F);
  y = std::fma(y, m, -1.2420140846e-1F);
  y = std::fma(y, m, 1.4249322787e-1F);
  y = std::fma(y, m, -1.6668057665e-1F);
  y = std::fma(y, m, 2.0000714765e-1F);
  y = std::fma(y, m, -2.4999993993e-1F);
  y = std::fma(y, m, 3.3333331174e-1F);
  y = std::fma(y * m, square, exponent * -2.12194440e-4F);
  y -= square * 0.5F;
  return std::fma(exponent, 0.693359375F, m + y);
}

// Sine and cosine of an angle in [0, 2 pi): Cephes sinf and cosf, which share the reduction to an octant.
[[gnu::always_inline]] inline void cephes_sin_cos(float x, float& sine, float& cosine) {
  const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516F) + 1) & ~1;
  const auto k = static_cast<float>(octant);
  x = std::fma(k, -0.78515625F, x);
  x = std::fma(k, -2.4187564849853515625e-4F, x);
  x = std::fma(k, -3.77489497744594108e-8F, x);

  const float square = x * x;
  float even = 2.443315711809948e-5F;
  even = std::fma(even, square, -1.388731625493765e-3F);
  even = std::fma(even, square, 4.166664568298827e-2F);
  even = std::fma(even * square, square, -(square * 0.5F)) + 1.0F;
  float odd = -1.9515295891e-4F;
  odd = std::fma(odd, square, 8.3321608736e-3F);
  odd = std::fma(odd, square, -1.6666654611e-1F);
  odd = std::fma(odd * square, x, x);

  const bool swap = (octant & 2) != 0;
  const float s = swap ? even : odd;
  const float c = swap ? odd : even;
  sine = (octant & 4) != 0 ? -s : s;
  cosine = ((octant - 2) & 4) == 0 ? -c : c;
}

// Box-Muller over one block of 16 uniform numbers, in place. The first clone runs on every machine with AVX2;
// both give the same bits.
[[gnu::target_clones("arch=haswell", "default")]] void box_muller_block(float* block, float mean, float std) {
  constexpr auto kTwoPi = static_cast<float>(2.0 * std::numbers::pi);
  float radius[kLanes];
  float sine[kLanes];
  float cosine[kLanes];
  for (int i = 0; i < kLanes; ++i) radius[i] = std::sqrt(-2.0F * cephes_log(1.0F - block[i]));
  for (int i = 0; i < kLanes; ++i) cephes_sin_cos(kTwoPi * block[kLanes + i], sine[i], cosine[i]);
  for (int i = 0; i < kLanes; ++i) {
    block[i] = std::fma(radius[i] * cosine[i], std, mean);
    block[kLanes + i] = std::fma(radius[i] * sine[i], std, mean);
  }
}

}  // namespace

void TorchGenerator::manual_seed(uint64_t seed) {
  engine_.seed(static_cast<uint32_t>(seed));
  next_normal_.reset();
}

uint32_t TorchGenerator::random() {
  return static_cast<uint32_t>(engine_());
}

uint64_t TorchGenerator::random64() {
  const uint64_t high = random();
  return high << 32 | random();
}

int64_t TorchGenerator::random_int64() {
  return static_cast<int64_t>(random64() & static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
}

void TorchGenerator::randperm(std::span<int64_t> out) {
  const auto n = static_cast<int64_t>(out.size());
  if (n < int64_t{std::numeric_limits<uint32_t>::max() / 20}) {
    for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = i;
    for (int64_t i = 0; i < n - 1; ++i) {
      const int64_t other = i + static_cast<int64_t>(random()) % (n - i);
      std::swap(out[static_cast<size_t>(i)], out[static_cast<size_t>(other)]);
    }
    return;
  }
  // For more elements 32 bits are too few for an even choice: PyTorch takes 64 bits, and the shuffle that
  // builds from the inside out.
  for (int64_t i = 0; i < n; ++i) {
    const auto other = static_cast<size_t>(random64() % (static_cast<uint64_t>(i) + 1));
    out[static_cast<size_t>(i)] = i;
    std::swap(out[static_cast<size_t>(i)], out[other]);
  }
}

float TorchGenerator::uniform_float() {
  return static_cast<float>(random() & 0xffffffU) * 0x1p-24F;
}

void TorchGenerator::uniform(std::span<float> out, float from, float to) {
  for (float& value : out) value = std::fma(uniform_float(), to - from, from);
}

double TorchGenerator::uniform_double() {
  return static_cast<double>(random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double TorchGenerator::next_normal_double() {
  if (next_normal_) return *std::exchange(next_normal_, std::nullopt);
  const double u1 = uniform_double();
  const double u2 = uniform_double();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double theta = 2.0 * std::numbers::pi * u1;
  next_normal_ = radius * std::sin(theta);
  return radius * std::cos(theta);
}

void TorchGenerator::normal(std::span<float> out, double mean, double std) {
  TorchNormalPieces(*this, static_cast<int64_t>(out.size()), mean, std).next(out);
}

void TorchNormalPieces::draw_block() {
  for (float& value : block_) value = generator_.uniform_float();
  box_muller_block(block_.data(), static_cast<float>(mean_), static_cast<float>(std_));
}

void TorchNormalPieces::next(std::span<float> out) {
  if (elements_ < kBlock) {
    for (float& value : out) value = static_cast<float>(generator_.next_normal_double() * std_ + mean_);
    return;
  }
  const int64_t last_begin = elements_ - kBlock;
  for (float& value : out) {
    const bool ends_ragged = elements_ % kBlock != 0;
    if (ends_ragged && given_ == last_begin) {
      // A ragged end is drawn anew as one whole block that overlaps the one before it. PyTorch has drawn numbers for
      // all elements before that.
      for (int64_t i = 0; i < elements_ % kBlock; ++i) generator_.uniform_float();
      draw_block();
      block_begin_ = last_begin;
    } else if (given_ == block_begin_ + kBlock) {
      draw_block();
      block_begin_ = given_;
    }
    value = block_[static_cast<size_t>(given_ - block_begin_)];
    ++given_;
  }
}

}  // namespace shoehorn
