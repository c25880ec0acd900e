#include "exec/cpu/elementwise/embedding_noise.h"

#include <algorithm>
#include <array>

#include "base/philox.h"
#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;

constexpr uint32_t kStep = 7;

// Three sequences with rows of none between and behind them.
struct NoiseCase {
  NoiseCase(DType storage, int64_t width)
      : dtype(storage), columns(width), x(random_tensor(dtype, kRows * columns, 1)) {}

  Tensor noisy(float alpha, bool in_place = false) const {
    Tensor from = x;
    Tensor y(dtype, x.count());
    embedding_noise({.dtype = dtype,
                     .rows = kRows,
                     .columns = columns,
                     .sequences = std::ssize(start),
                     .alpha = alpha,
                     .seed = kSeed,
                     .stream_id = kStream,
                     .step = &kStep,
                     .start = start.data(),
                     .length = length.data(),
                     .sample = sample.data(),
                     .x = from.data(),
                     .y = in_place ? from.data() : y.data()});
    return in_place ? from : y;
  }

  // What the header says, in double precision.
  double noise(float alpha, int64_t row, int64_t column) const {
    for (size_t s = 0; s < start.size(); ++s) {
      const int64_t position = row - start[s];
      if (position < 0 || position >= length[s]) continue;
      const auto words = philox4x32_10(philox_key(kSeed, kStep, kStream),
                                       {static_cast<uint32_t>(column / 8), static_cast<uint32_t>(position),
                                        static_cast<uint32_t>(sample[s]), 0});
      const uint32_t bits = (words[static_cast<size_t>(column % 8 / 2)] >> (16 * (column % 2))) & 0xffffU;
      return ((2.0 * bits + 1) / 65536 - 1) * alpha / std::sqrt(static_cast<double>(length[s] * columns));
    }
    return 0;
  }

  static constexpr int64_t kRows = 48;
  static constexpr uint64_t kSeed = 0x123456789abcdef0U;
  static constexpr uint32_t kStream = 1U << 24;
  std::array<int32_t, 3> start = {0, 11, 30};
  std::array<int32_t, 3> length = {11, 1, 9};
  std::array<int32_t, 3> sample = {4, 0, 250};
  DType dtype;
  int64_t columns;
  Tensor x;
};

class EmbeddingNoiseTest : public test_support::EveryTarget {};

TEST_P(EmbeddingNoiseTest, IsWhatItsDefinitionSays) {
  constexpr float kAlpha = 15;
  for (const DType dtype : kStorages) {
    for (const int64_t columns : {1, 7, 8, 24, 1030, 2053}) {
      const NoiseCase given(dtype, columns);
      const Tensor y = given.noisy(kAlpha);
      for (int64_t i = 0; i < y.count(); ++i) {
        const double noise = given.noise(kAlpha, i / columns, i % columns);
        const double expected = given.x[i] + noise;
        ASSERT_NEAR(y[i], expected, tolerance(dtype, expected, std::abs(expected) + 4 * std::abs(noise), 1))
            << dtype_name(dtype) << " " << columns << " " << i;
        ASSERT_TRUE(noise != 0 || y[i] == given.x[i]) << "a row of no sequence: " << i;
      }
      EXPECT_EQ(given.noisy(kAlpha, true).bytes(), y.bytes()) << "in place";
      with_threads(3, [&] { EXPECT_EQ(given.noisy(kAlpha).bytes(), y.bytes()) << "three threads"; });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EmbeddingNoiseTest, test_support::every_target(),
                         test_support::target_name);

// Of u uniform in (-1, 1): mean 0, variance 1/3, and of u² the variance 4/45. Five standard errors.
TEST(EmbeddingNoiseDistribution, IsUniformWithinAlphaOverTheRootOfLengthAndWidth) {
  constexpr int64_t kTokens = 64;
  constexpr int64_t kColumns = 1024;
  constexpr float kAlpha = 5;
  const double largest = kAlpha / std::sqrt(double{kTokens * kColumns});
  const int32_t start = 0;
  const int32_t length = kTokens;
  const int32_t sample = 3;
  Tensor y(DType::kF32, kTokens * kColumns);
  embedding_noise({.dtype = DType::kF32,
                   .rows = kTokens,
                   .columns = kColumns,
                   .sequences = 1,
                   .alpha = kAlpha,
                   .seed = 42,
                   .stream_id = 1,
                   .step = &kStep,
                   .start = &start,
                   .length = &length,
                   .sample = &sample,
                   .x = y.data(),
                   .y = y.data()});
  double sum = 0, squares = 0, least = 1, most = -1;
  for (int64_t i = 0; i < y.count(); ++i) {
    const double u = y[i] / largest;
    sum += u;
    squares += u * u;
    least = std::min(least, u);
    most = std::max(most, u);
  }
  const auto count = static_cast<double>(y.count());
  EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(1.0 / 3 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
  // That all of so many lie below 0.999 has a probability of 0.9995^65536.
  EXPECT_GT(most, 0.999);
  EXPECT_LT(most, 1);
  EXPECT_LT(least, -0.999);
  EXPECT_GT(least, -1);
}

}  // namespace
}  // namespace shoehorn::cpu
