// Products against naive double sums of the same operands: all transposes, bias, accumulation, run-time
// counts of rows and of the summed dimension, fp32, bf16 and fp16.
#include "exec/cpu/products/matmul.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/products/matmul_onednn.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu {
namespace {

// Row-major, in any of the types; the values are what the storage holds.
struct Matrix {
  DType dtype;
  std::vector<double> values;
  std::vector<std::byte> bytes;

  Matrix(DType type, int64_t count, uint32_t seed)
      : dtype(type), bytes(static_cast<size_t>(count * dtype_bytes(type))) {
    std::mt19937 generator(seed);
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(generator()) * 0x1p-31F - 1;  // of [-1, 1]
      with_storage(dtype, [&](auto element) {
        write_element(value, &element);
        std::memcpy(&bytes[static_cast<size_t>(i) * sizeof(element)], &element, sizeof(element));
      });
      values.push_back((*this)[i]);
    }
  }
  double operator[](int64_t i) const {
    double value = 0;
    with_storage(dtype, [&](auto element) {
      std::memcpy(&element, &bytes[static_cast<size_t>(i) * sizeof(element)], sizeof(element));
      value = read_element(&element);
    });
    return value;
  }
};

// Of a row of C, sums of double products, and of their magnitudes.
struct RowSums {
  std::vector<double> sum, magnitude;
};

RowSums row_sums(const MatmulShape& shape, const Matrix& a, const Matrix& b, int64_t row, int64_t k) {
  RowSums sums{std::vector<double>(static_cast<size_t>(shape.n)),
               std::vector<double>(static_cast<size_t>(shape.n))};
  for (int64_t i = 0; i < k; ++i) {
    const double left =
        a.values[static_cast<size_t>(shape.transpose_a ? i * shape.m + row : row * shape.k + i)];
    const double* right = &b.values[static_cast<size_t>(shape.transpose_b ? i : i * shape.n)];
    const int64_t stride = shape.transpose_b ? shape.k : 1;
    for (size_t column = 0; column < sums.sum.size(); ++column) {
      const double term = left * right[static_cast<int64_t>(column) * stride];
      sums.sum[column] += term;
      sums.magnitude[column] += std::abs(term);
    }
  }
  return sums;
}

// Runs the product for `count` and compares every element of C, those behind the count included, which stay
// as they were.
void expect_product(const MatmulShape& shape, int64_t count) {
  SCOPED_TRACE(fmt::format("{}x{}x{} {}{} {}->{} bias {} accumulate {} dynamic {} count {}", shape.m, shape.n,
                           shape.k, shape.transpose_a ? "t" : "n", shape.transpose_b ? "t" : "n",
                           dtype_name(shape.operands), dtype_name(shape.result), shape.bias, shape.accumulate,
                           static_cast<int>(shape.dynamic), count));
  const int64_t m = shape.dynamic == DynamicDimension::kM ? count : shape.m;
  const int64_t k = shape.dynamic == DynamicDimension::kK ? count : shape.k;
  const Matrix a(shape.operands, shape.m * shape.k, 1);
  const Matrix b(shape.operands, shape.k * shape.n, 2);
  const Matrix bias(DType::kF32, shape.n, 3);
  Matrix c(shape.result, shape.m * shape.n, 4);
  const auto matmul = prepare_matmul(shape);
  // Guarded by a pattern behind its end.
  constexpr int64_t kGuard = 64;
  const int64_t bytes = matmul->workspace_bytes();
  std::vector<std::byte> scratch(static_cast<size_t>(bytes + 2 * kGuard), std::byte{0xFF});
  auto* workspace =
      scratch.data() +
      (kGuard - static_cast<int64_t>(reinterpret_cast<uintptr_t>(scratch.data()) % kGuard)) % kGuard;
  matmul->run(count, a.bytes.data(), b.bytes.data(),
              shape.bias ? reinterpret_cast<const float*>(bias.bytes.data()) : nullptr, c.bytes.data(),
              workspace);
  for (int64_t i = 0; i < kGuard / 2; ++i)
    ASSERT_EQ(workspace[bytes + i], std::byte{0xFF}) << "written behind the workspace";
  for (int64_t row = 0; row < shape.m; ++row) {
    const RowSums sums = row < m ? row_sums(shape, a, b, row, k) : RowSums{};
    for (int64_t column = 0; column < shape.n; ++column) {
      const int64_t at = row * shape.n + column;
      const double before = c.values[static_cast<size_t>(at)];
      if (row >= m) {
        ASSERT_EQ(c[at], before) << "row " << row << " is behind the count";
        continue;
      }
      const double initial = shape.accumulate ? before : 0;
      const double added = shape.bias ? bias.values[static_cast<size_t>(column)] : 0;
      const double sum = initial + added + sums.sum[static_cast<size_t>(column)];
      const double magnitude =
          std::abs(initial) + std::abs(added) + sums.magnitude[static_cast<size_t>(column)];
      // Each addition rounds once; their errors grow at most with the number of terms.
      double tolerance = 0x1p-24 * static_cast<double>(k + 2) * magnitude;
      if (shape.result != DType::kF32)
        tolerance += dtype_epsilon(shape.result) / 2 * std::abs(sum) + 0x1p-25;  // a subnormal's half step
      ASSERT_NEAR(c[at], sum, tolerance) << "row " << row << " column " << column;
    }
  }
}

class MatmulTest : public testing::TestWithParam<DType> {};

TEST_P(MatmulTest, StaticShapes) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {17, 33, 65}, {64, 48, 32}, {130, 1, 9}}) {
    for (const bool transpose_a : {false, true}) {
      // A static 16-bit product of a transposed operand is nobody's: panels are cut from whole rows.
      if (transpose_a && GetParam() != DType::kF32) continue;
      for (const bool transpose_b : {false, true}) {
        for (const bool bias : {false, true}) {
          for (const bool accumulate : {false, true}) {
            expect_product({.m = m,
                            .n = n,
                            .k = k,
                            .transpose_a = transpose_a,
                            .transpose_b = transpose_b,
                            .operands = GetParam(),
                            .bias = bias,
                            .accumulate = accumulate},
                           0);
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, RowsOfARunTimeCount) {
  for (const int64_t multiple : {1, 3, 16}) {
    const int64_t maximum = 16 * 3 * 2;
    for (const bool transpose_b : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const int64_t count :
             {int64_t{0}, multiple, 3 * multiple, 5 * multiple, maximum - multiple, maximum}) {
          expect_product({.m = maximum,
                          .n = 19,
                          .k = 23,
                          .transpose_b = transpose_b,
                          .operands = GetParam(),
                          .bias = bias,
                          .dynamic = DynamicDimension::kM,
                          .count_multiple = multiple},
                         count);
        }
      }
    }
  }
}

TEST_P(MatmulTest, SumsOfARunTimeCount) {
  for (const int64_t multiple : {1, 3, 16}) {
    const int64_t maximum = 16 * 3 * 2;
    for (const bool accumulate : {false, true}) {
      for (const int64_t count :
           {int64_t{0}, multiple, 3 * multiple, 5 * multiple, maximum - multiple, maximum}) {
        expect_product({.m = 21,
                        .n = 13,
                        .k = maximum,
                        .transpose_a = true,
                        .operands = GetParam(),
                        .accumulate = accumulate,
                        .dynamic = DynamicDimension::kK,
                        .count_multiple = multiple},
                       count);
      }
    }
  }
}

// More rows than a panel has, and counts that end inside one.
TEST_P(MatmulTest, SeveralPanels) {
  for (const int64_t multiple : {1, 3, 16}) {
    const int64_t maximum = 1200 / multiple * multiple;
    for (const int64_t count : {513 / multiple * multiple, 1025 / multiple * multiple, maximum}) {
      expect_product({.m = maximum,
                      .n = 7,
                      .k = 5,
                      .operands = GetParam(),
                      .bias = true,
                      .dynamic = DynamicDimension::kM,
                      .count_multiple = multiple},
                     count);
      expect_product({.m = 5,
                      .n = 7,
                      .k = maximum,
                      .transpose_a = true,
                      .operands = GetParam(),
                      .accumulate = true,
                      .dynamic = DynamicDimension::kK,
                      .count_multiple = multiple},
                     count);
    }
  }
  expect_product({.m = 1031, .n = 7, .k = 5, .operands = GetParam()}, 0);
}

// Operands with rows of a multiple of 512 elements, which are copied to longer ones where the library would read them as they
// lie: one and several copies of terms, the last of fewer terms; counts of one and several pieces.
TEST_P(MatmulTest, RowsThatShareCaches) {
  for (const int64_t k : {70, 512, 1100}) {
    for (const int64_t count : {16, 80, 112}) {
      for (const bool transpose_b : {false, true}) {
        expect_product({.m = 112,
                        .n = 512,
                        .k = k,
                        .transpose_b = transpose_b,
                        .operands = GetParam(),
                        .bias = true,
                        .dynamic = DynamicDimension::kM,
                        .count_multiple = 16},
                       count);
      }
    }
  }
  for (const bool accumulate : {false, true}) {
    for (const bool transpose_a : {false, true}) {
      if (transpose_a && GetParam() != DType::kF32) continue;  // as in StaticShapes
      expect_product({.m = 64,
                      .n = 512,
                      .k = 1100,
                      .transpose_a = transpose_a,
                      .operands = GetParam(),
                      .bias = true,
                      .accumulate = accumulate},
                     0);
    }
    for (const int64_t count : {48, 80, 96}) {
      expect_product({.m = 512,
                      .n = 1024,
                      .k = 96,
                      .transpose_a = true,
                      .operands = GetParam(),
                      .accumulate = accumulate,
                      .dynamic = DynamicDimension::kK,
                      .count_multiple = 16},
                     count);
    }
  }
}

// B of more columns than a strip has, its last strip narrower, in the shapes that halve their workspace by
// it: few rows of fp32, or 16-bit results. Few of the rows are there, so that the test is quick.
TEST_P(MatmulTest, SeveralStrips) {
  for (const int64_t n : {3083, 4096}) {
    for (const bool transpose_b : {false, true}) {
      const int64_t m = transpose_b ? 1024 : 512;
      for (const DType result : {DType::kF32, GetParam()}) {
        expect_product({.m = m,
                        .n = n,
                        .k = 2 * m,
                        .transpose_b = transpose_b,
                        .operands = GetParam(),
                        .result = result,
                        .bias = true,
                        .dynamic = DynamicDimension::kM,
                        .count_multiple = 1},
                       5);
      }
    }
  }
}

// What is in the workspace then is a strip's blocks and not those of all columns.
TEST(MatmulWorkspace, HoldsOneStrip) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "column blocks are for AVX-512";
  const MatmulShape narrow{.m = 512, .n = 1024, .k = 1024, .dynamic = DynamicDimension::kM};
  MatmulShape wide = narrow;
  wide.n = 4 * narrow.n;
  EXPECT_LE(plan_matmul(wide)->workspace_bytes(), 2 * plan_matmul(narrow)->workspace_bytes());
}

// And of a B that is copied to longer rows a part of its terms; with AVX-512 the library reads B where it lies without harm.
TEST(MatmulWorkspace, HoldsSomeTermsOfACopy) {
  const MatmulShape shape{
      .m = 128, .n = 1024, .k = 4096, .dynamic = DynamicDimension::kM, .count_multiple = 16};
  const int64_t bytes = plan_matmul(shape)->workspace_bytes();
  EXPECT_LE(bytes, shape.k * shape.n * 4 / 4);
  if (!has_blocked_layouts()) {
    EXPECT_EQ(bytes, 256 * (shape.n + 16) * 4);
  }
}

// Sums so long, for results of so few columns, that oneDNN would make a result of each thread.
TEST_P(MatmulTest, LongSumsOnManyThreads) {
  constexpr int kThreads = 64;
  MatmulShape shape{.m = 384,
                    .n = 384,
                    .k = 2048,
                    .transpose_a = true,
                    .operands = GetParam(),
                    .dynamic = DynamicDimension::kK,
                    .count_multiple = 16};
  release_unused_matmuls();
  test_support::with_threads(kThreads, [&] {
    for (const auto& [accumulate, count] : {std::pair{false, shape.k - 16}, std::pair{true, shape.k}}) {
      shape.accumulate = accumulate;
      EXPECT_LT(plan_matmul(shape)->workspace_bytes(), kThreads * shape.m * shape.n * 4);
      expect_product(shape, count);
    }
  });
  release_unused_matmuls();
}

INSTANTIATE_TEST_SUITE_P(Operands, MatmulTest, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(NarrowResults, AreRoundedOnce) {
  for (const auto& [bias, narrow] : {std::pair{false, DType::kBF16}, std::pair{true, DType::kBF16},
                                     std::pair{false, DType::kF16}, std::pair{true, DType::kF16}}) {
    for (const int64_t count : {0, 16, 48, 1008, 1024}) {
      expect_product({.m = 1024,
                      .n = 9,
                      .k = 33,
                      .transpose_b = true,
                      .operands = narrow,
                      .result = narrow,
                      .bias = bias,
                      .dynamic = DynamicDimension::kM,
                      .count_multiple = 16},
                     count);
    }
  }
}

class NativeProducts : public testing::TestWithParam<DType> {};

// A widened A would take four bytes an element of the workspace.
TEST_P(NativeProducts, WidenNothing) {
  if (!has_products_of(GetParam()))
    GTEST_SKIP() << matmul_library() << " has no products of " << dtype_name(GetParam())
                 << " on this processor";
  const MatmulShape shape{.m = 256, .n = 16, .k = 512, .transpose_b = true, .operands = GetParam()};
  EXPECT_LT(plan_matmul(shape)->workspace_bytes(), shape.m * shape.k * 4);
  EXPECT_EQ(rows_of_full_panels(GetParam()), 1);
}

INSTANTIATE_TEST_SUITE_P(Operands, NativeProducts, testing::Values(DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(PrepareMatmul, SharesProductsAndRejectsWhatItCannotCut) {
  const MatmulShape shape{.m = 8, .n = 4, .k = 6};
  const auto matmul = prepare_matmul(shape);
  EXPECT_EQ(prepare_matmul(shape), matmul);
  EXPECT_THROW(prepare_matmul({.m = 8, .n = 4, .k = 6, .transpose_a = true, .dynamic = DynamicDimension::kM}),
               InternalError);
  EXPECT_THROW(prepare_matmul({.m = 8, .n = 4, .k = 6, .dynamic = DynamicDimension::kK}), InternalError);
  EXPECT_THROW(
      prepare_matmul(
          {.m = 8, .n = 4, .k = 6, .transpose_a = true, .bias = true, .dynamic = DynamicDimension::kK}),
      InternalError)
      << "every piece of the sum would add the bias";
  EXPECT_THROW(
      prepare_matmul(
          {.m = 8, .n = 4, .k = 6, .operands = DType::kBF16, .result = DType::kBF16, .accumulate = true}),
      InternalError);
  EXPECT_THROW(prepare_matmul({.m = 8, .n = 4, .k = 6, .result = DType::kBF16}), InternalError);
}

TEST(MatmulSharing, WhatNobodyHoldsIsGivenBack) {
  const MatmulShape held_shape{.m = 48, .n = 32, .k = 16};
  const MatmulShape dropped_shape{.m = 48, .n = 32, .k = 24};
  const auto held = prepare_matmul(held_shape);
  const std::weak_ptr<const Matmul> dropped = prepare_matmul(dropped_shape);
  release_unused_matmuls();
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(plan_matmul(held_shape), held);
}

}  // namespace
}  // namespace shoehorn::cpu
