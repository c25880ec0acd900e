#include "exec/cpu/elementwise/elementwise.h"

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

// A single float32 operation, rounded once to storage: results are exact.
float stored(DType dtype, float value) {
  if (dtype == DType::kF16) return to_float(to_float16(value));
  return dtype == DType::kF32 ? value : to_float(to_bfloat16(value));
}

class Elementwise : public test_support::EveryTarget {};

TEST_P(Elementwise, SumsProductsScalesAndCasts) {
  for (const DType dtype : kStorages) {
    for (const int64_t count : {0, 1, 17, 64, 1001, 40000}) {
      const Tensor a = random_tensor(dtype, count, 1);
      const Tensor b = random_tensor(dtype, count, 2);
      Tensor sum(dtype, count), product(dtype, count), scaled(dtype, count), filled(dtype, count),
          copied(dtype, count);
      Tensor narrow(DType::kBF16, count), half(DType::kF16, count), wide(DType::kF32, count);
      const float factor = 0.37F;
      add({.dtype = dtype, .count = count, .a = a.data(), .b = b.data(), .sum = sum.data()});
      multiply({.dtype = dtype, .count = count, .a = a.data(), .b = b.data(), .product = product.data()});
      scale({.dtype = dtype, .count = count, .x = a.data(), .factor = &factor, .y = scaled.data()});
      fill({.dtype = dtype, .count = count, .value = 1.1F, .y = filled.data()});
      copy(a.data(), static_cast<int64_t>(a.bytes().size()), copied.data());
      cast({.count = count,
            .from_dtype = dtype,
            .from = a.data(),
            .to_dtype = DType::kBF16,
            .to = narrow.data()});
      cast({.count = count,
            .from_dtype = dtype,
            .from = a.data(),
            .to_dtype = DType::kF16,
            .to = half.data()});
      cast({.count = count,
            .from_dtype = dtype,
            .from = a.data(),
            .to_dtype = DType::kF32,
            .to = wide.data()});
      EXPECT_EQ(copied.bytes(), a.bytes());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(sum[i], stored(dtype, a[i] + b[i]));
        ASSERT_EQ(product[i], stored(dtype, a[i] * b[i]));
        ASSERT_EQ(scaled[i], stored(dtype, a[i] * factor));
        ASSERT_EQ(filled[i], stored(dtype, 1.1F));
        ASSERT_EQ(narrow[i], stored(DType::kBF16, a[i]));
        ASSERT_EQ(half[i], stored(DType::kF16, a[i]));
        ASSERT_EQ(wide[i], a[i]);
      }
      add({.dtype = dtype, .count = count, .a = copied.data(), .b = b.data(), .sum = copied.data()});
      EXPECT_EQ(copied.bytes(), sum.bytes()) << "in place";
      Tensor factor_and_product = b;
      multiply({.dtype = dtype,
                .count = count,
                .a = a.data(),
                .b = factor_and_product.data(),
                .product = factor_and_product.data()});
      EXPECT_EQ(factor_and_product.bytes(), product.bytes()) << "in place";
    }
  }
}

// The processor's conversion against the definition in base/float16.h: every float16, the neighbours of every
// rounding boundary, and what no float16 holds.
TEST_P(Elementwise, Float16CastsFollowTheDefinition) {
  std::vector<float> values = {1e6F,     -1e6F,     65504.0F,  65519.996F, 65520.0F, 3e38F,
                               INFINITY, -INFINITY, NAN,       0x1p-24F,   0x1p-25F, 0x1.000002p-25F,
                               0x1p-26F, 1e-30F,    0x1p-149F, -0.0F};
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const float value = to_float(float16{static_cast<uint16_t>(bits)});
    const float next = to_float(float16{static_cast<uint16_t>(bits + 1)});
    values.push_back(value);
    if (!std::isfinite(value) || !std::isfinite(next)) continue;
    const float middle = (value + next) / 2;
    values.insert(values.end(), {middle, std::nextafter(middle, value), std::nextafter(middle, next)});
  }
  const auto count = static_cast<int64_t>(values.size());

  Tensor half(DType::kF16, count), back(DType::kF32, count);
  cast({.count = count,
        .from_dtype = DType::kF32,
        .from = values.data(),
        .to_dtype = DType::kF16,
        .to = half.data()});
  cast({.count = count,
        .from_dtype = DType::kF16,
        .from = half.data(),
        .to_dtype = DType::kF32,
        .to = back.data()});
  for (int64_t i = 0; i < count; ++i) {
    const float16 expected = to_float16(values[static_cast<size_t>(i)]);
    float16 found{};
    std::memcpy(&found, half.bytes().data() + 2 * i, 2);
    ASSERT_EQ(found.bits, expected.bits) << values[static_cast<size_t>(i)];
    const float widened = back[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(widened), std::bit_cast<uint32_t>(to_float(expected)));
  }
}

TEST_P(Elementwise, BiasAdd) {
  for (const DType dtype : kStorages) {
    for (const int64_t columns : {1, 33, 128}) {
      const Tensor x = random_tensor(dtype, 9 * columns, 1);
      Tensor bias = random_tensor(DType::kF32, columns, 2);
      Tensor y(dtype, x.count());
      bias_add({.dtype = dtype,
                .rows = 9,
                .columns = columns,
                .x = x.data(),
                .bias = bias.floats(),
                .y = y.data()});
      for (int64_t i = 0; i < x.count(); ++i) ASSERT_EQ(y[i], stored(dtype, x[i] + bias[i % columns]));
    }
  }
}

struct DropoutCase {
  DropoutCase(int64_t rows, float p) {
    for (int64_t r = 0; r < rows; ++r) {
      sample.push_back(static_cast<int32_t>(3 + r / 5));
      position.push_back(static_cast<int32_t>(r % 5));
    }
    dropout = {.p = p,
               .seed = 0x123456789abcULL,
               .stream_id = 17,
               .step = &step,
               .sample = sample.data(),
               .position = position.data()};
  }
  bool dropped(int64_t row, int64_t feature) const {
    const auto block = philox4x32_10(
        philox_key(dropout.seed, step, dropout.stream_id),
        {static_cast<uint32_t>(feature / 8), static_cast<uint32_t>(position[static_cast<size_t>(row)]),
         static_cast<uint32_t>(sample[static_cast<size_t>(row)]), 0});
    const uint32_t word = block[static_cast<size_t>(feature % 8 / 2)];
    return (feature % 2 == 0 ? word & 0xffffU : word >> 16) < drop_threshold(dropout.p);
  }
  uint32_t step = 1234;
  std::vector<int32_t> sample, position;
  Dropout dropout;
};

TEST_P(Elementwise, DropoutIsTheScalarDefinition) {
  for (const DType dtype : kStorages) {
    for (const int64_t columns : {1, 7, 8, 100, 2048, 4101}) {
      constexpr int64_t kRows = 6;
      const DropoutCase c(kRows, 0.3F);
      const Tensor x = random_tensor(dtype, kRows * columns, 1, 3.0F);
      Tensor y(dtype, x.count());
      dropout_apply({.dtype = dtype,
                     .rows = kRows,
                     .columns = columns,
                     .dropout = c.dropout,
                     .x = x.data(),
                     .y = y.data()});
      for (int64_t i = 0; i < x.count(); ++i) {
        const bool dropped = c.dropped(i / columns, i % columns);
        ASSERT_EQ(y[i], dropped ? 0.0F : stored(dtype, x[i] * keep_scale(0.3F))) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Elementwise, test_support::every_target(), test_support::target_name);

TEST(Elementwise, DropoutOfNothingIsACopy) {
  const Tensor x = random_tensor(DType::kF32, 40, 1);
  Tensor y(DType::kF32, 40);
  dropout_apply(
      {.dtype = DType::kF32, .rows = 4, .columns = 10, .dropout = {}, .x = x.data(), .y = y.data()});
  EXPECT_EQ(x.bytes(), y.bytes());
}

TEST(Elementwise, DropoutKeepsThisShare) {
  const DropoutCase c(500, 0.1F);
  Tensor x(DType::kF32, 500 * 400);
  fill({.dtype = DType::kF32, .count = x.count(), .value = 1.0F, .y = x.data()});
  with_threads(2, [&] {
    dropout_apply({.dtype = DType::kF32,
                   .rows = 500,
                   .columns = 400,
                   .dropout = c.dropout,
                   .x = x.data(),
                   .y = x.data()});
  });
  double kept = 0;
  for (int64_t i = 0; i < x.count(); ++i) kept += x[i] != 0.0F;
  const double n = static_cast<double>(x.count());
  EXPECT_NEAR(kept / n, 0.9, 5.0 * std::sqrt(0.09 / n));
}

class SplitMaster : public test_support::EveryTarget {};

TEST_P(SplitMaster, LosesNoBit) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const int64_t count = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[static_cast<size_t>(i)];
    const SplitFloat split = split_float(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(split.high)) && std::isnan(join_float(split)));
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(join_float(split)), std::bit_cast<uint32_t>(value));
    // Away from ties, the plain cast.
    const bool tie = (std::bit_cast<uint32_t>(value) & 0xffffU) == 0x8000U;
    if (!tie) {
      ASSERT_EQ(split.high.bits, to_bfloat16(value).bits);
    }
  }

  std::vector<bfloat16> high(values.size());
  std::vector<int16_t> rest(values.size());
  std::vector<float> back(values.size());
  split_master(values.data(), count, high.data(), rest.data());
  join_master(high.data(), rest.data(), count, back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const SplitFloat split = split_float(values[i]);
    ASSERT_EQ(high[i].bits, split.high.bits);
    ASSERT_EQ(rest[i], split.rest);
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(join_float(split)));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SplitMaster, test_support::every_target(), test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
