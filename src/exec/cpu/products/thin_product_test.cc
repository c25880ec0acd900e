// Thin products against double sums of the same operands, in each form, type and set of instructions.
#include "exec/cpu/products/thin_product.h"

#include <fmt/format.h>

#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/simd/bf16_dots.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;

// C behind the product of `count` of its dimension that has a run-time count.
struct ThinMade {
  Tensor a, b, before, c;
};

ThinMade run_thin(const MatmulShape& shape, bool dots, int64_t count) {
  ThinMade made{random_tensor(shape.operands, shape.m * shape.k, 1),
                random_tensor(shape.operands, shape.k * shape.n, 2),
                random_tensor(shape.result, shape.m * shape.n, 3), random_tensor(shape.result, 0, 4)};
  made.c = made.before;
  const auto product = make_thin_product(shape, dots);
  Tensor workspace = test_support::workspace(product->workspace_bytes() + 8);
  const Tensor clean = test_support::workspace(product->workspace_bytes() + 8);
  product->run(count, made.a.data(), made.b.data(), nullptr, made.c.data(), workspace.data());
  for (int64_t i = product->workspace_bytes(); i < std::ssize(workspace.bytes()); ++i)
    EXPECT_EQ(workspace.bytes()[static_cast<size_t>(i)], clean.bytes()[static_cast<size_t>(i)])
        << "written behind the workspace";
  return made;
}

void expect_thin_product(const MatmulShape& shape, bool dots, int64_t count) {
  SCOPED_TRACE(fmt::format("{}x{}x{} {}{} {} accumulate {} count {} dots {}", shape.m, shape.n, shape.k,
                           shape.transpose_a ? "t" : "n", shape.transpose_b ? "t" : "n",
                           dtype_name(shape.operands), shape.accumulate, count, dots));
  const ThinMade made = run_thin(shape, dots, count);
  const int64_t m = shape.dynamic == DynamicDimension::kM ? count : shape.m;
  const int64_t k = shape.dynamic == DynamicDimension::kK ? count : shape.k;
  for (int64_t at = 0; at < shape.m * shape.n; ++at) {
    const int64_t row = at / shape.n;
    const int64_t column = at % shape.n;
    double sum = shape.accumulate || row >= m ? static_cast<double>(made.before[at]) : 0;
    double magnitude = std::abs(sum);
    for (int64_t i = 0; row < m && i < k; ++i) {
      const double term =
          static_cast<double>(made.a[shape.transpose_a ? i * shape.m + row : row * shape.k + i]) *
          static_cast<double>(made.b[shape.transpose_b ? column * shape.k + i : i * shape.n + column]);
      sum += term;
      magnitude += std::abs(term);
    }
    // Each addition rounds once, and the sum of a vector's lanes four times.
    ASSERT_NEAR(static_cast<double>(made.c[at]), sum,
                tolerance(shape.result, sum, magnitude, static_cast<double>(k + 6)))
        << "row " << row << " column " << column;
  }
}

constexpr int64_t kThin[] = {1, 3, 8, 13, 16};

// Wide dimensions end within a vector; the third dimension is none, a part and several of the blocks of rows.
void expect_thin_products(DType dtype, bool dots) {
  for (const int64_t thin : kThin) {
    for (const int64_t wide : {128, 203}) {
      for (const int64_t rows : {1, 2, 5, 37}) {
        const MatmulShape columns{.m = rows, .n = thin, .k = wide, .operands = dtype, .result = dtype};
        MatmulShape terms{.m = rows, .n = wide, .k = thin, .operands = dtype, .result = dtype};
        for (const bool transpose_b : {false, true}) {
          MatmulShape shape = columns;
          shape.transpose_b = transpose_b;
          expect_thin_product(shape, dots, rows);
          terms.transpose_b = transpose_b;
          for (const bool accumulate : {false, true}) {
            terms.accumulate = accumulate;
            expect_thin_product(terms, dots, rows);
          }
        }
        for (const bool accumulate : {false, true}) {
          for (const auto& [m, n] : {std::pair{thin, wide}, {wide, thin}}) {
            expect_thin_product(
                {.m = m, .n = n, .k = rows, .transpose_a = true, .operands = dtype, .accumulate = accumulate},
                dots, rows);
          }
        }
      }
    }
  }
}

void expect_run_time_counts(DType dtype, bool dots) {
  for (const int64_t count : {0, 1, 6, 37}) {
    expect_thin_product(
        {.m = 37, .n = 8, .k = 96, .operands = dtype, .result = dtype, .dynamic = DynamicDimension::kM}, dots,
        count);
    expect_thin_product({.m = 37,
                         .n = 96,
                         .k = 8,
                         .operands = dtype,
                         .result = dtype,
                         .accumulate = true,
                         .dynamic = DynamicDimension::kM},
                        dots, count);
    for (const bool accumulate : {false, true}) {
      for (const auto& [m, n] : {std::pair{8, 96}, {96, 8}}) {
        expect_thin_product({.m = m,
                             .n = n,
                             .k = 37,
                             .transpose_a = true,
                             .operands = dtype,
                             .accumulate = accumulate,
                             .dynamic = DynamicDimension::kK},
                            dots, count);
      }
    }
  }
}

// Large enough for several threads, each form.
std::vector<MatmulShape> large_shapes(DType dtype) {
  return {{.m = 67, .n = 8, .k = 2048, .transpose_b = true, .operands = dtype, .result = dtype},
          {.m = 67, .n = 2048, .k = 8, .operands = dtype, .result = dtype, .accumulate = true},
          {.m = 8, .n = 2048, .k = 301, .transpose_a = true, .operands = dtype},
          {.m = 2048, .n = 8, .k = 301, .transpose_a = true, .operands = dtype}};
}

void expect_no_trace_of_threads(DType dtype, bool dots) {
  for (const MatmulShape& shape : large_shapes(dtype)) {
    const auto bytes = [&](int threads) {
      std::vector<unsigned char> made;
      with_threads(threads, [&] { made = run_thin(shape, dots, 0).c.bytes(); });
      return made;
    };
    const auto one = bytes(1);
    EXPECT_EQ(bytes(2), one);
    EXPECT_EQ(bytes(3), one);
  }
}

// A row is the same in any block of rows.
void expect_rows_alone(DType dtype, bool dots) {
  for (MatmulShape shape : large_shapes(dtype)) {
    if (shape.transpose_a) continue;
    const auto all = run_thin(shape, dots, 0).c.bytes();
    shape.dynamic = DynamicDimension::kM;
    for (const int64_t count : {1, 2, 66}) {
      const auto some = run_thin(shape, dots, count).c.bytes();
      const auto end = count * shape.n * dtype_bytes(dtype);
      EXPECT_TRUE(std::equal(some.begin(), some.begin() + end, all.begin())) << count;
    }
  }
}

class ThinProducts : public test_support::EveryTarget {};

TEST_P(ThinProducts, AreDoubleSums) {
  for (const DType dtype : kStorages) expect_thin_products(dtype, false);
}
TEST_P(ThinProducts, OfRunTimeCounts) {
  for (const DType dtype : kStorages) expect_run_time_counts(dtype, false);
}
TEST_P(ThinProducts, ThreadsLeaveNoTrace) {
  for (const DType dtype : kStorages) expect_no_trace_of_threads(dtype, false);
}
TEST_P(ThinProducts, RowsDoNotDependOnOthers) {
  for (const DType dtype : kStorages) expect_rows_alone(dtype, false);
}

INSTANTIATE_TEST_SUITE_P(Targets, ThinProducts, test_support::every_target(), test_support::target_name);

class ThinProductDots : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_fast_bf16_dots()) GTEST_SKIP() << "this processor has no fast dot products of bfloat16";
  }
};

TEST_F(ThinProductDots, AreDoubleSums) {
  expect_thin_products(DType::kBF16, true);
}
TEST_F(ThinProductDots, OfRunTimeCounts) {
  expect_run_time_counts(DType::kBF16, true);
}
TEST_F(ThinProductDots, ThreadsLeaveNoTrace) {
  expect_no_trace_of_threads(DType::kBF16, true);
}
TEST_F(ThinProductDots, RowsDoNotDependOnOthers) {
  expect_rows_alone(DType::kBF16, true);
}

TEST(ThinForm, FollowsFromTheShape) {
  const MatmulShape terms{
      .m = 40, .n = 896, .k = 8, .operands = DType::kBF16, .result = DType::kBF16, .accumulate = true};
  const MatmulShape columns{.m = 40, .n = 8, .k = 896, .operands = DType::kBF16, .result = DType::kBF16};
  const MatmulShape sums{.m = 8, .n = 896, .k = 40, .transpose_a = true, .operands = DType::kBF16};
  EXPECT_EQ(thin_form(terms), ThinForm::kTerms);
  EXPECT_EQ(thin_form(columns), ThinForm::kColumns);
  EXPECT_EQ(thin_form(sums), ThinForm::kSums);
  const auto changed = [](MatmulShape shape, auto change) {
    change(shape);
    return thin_form(shape);
  };
  for (const MatmulShape& shape : {terms, columns, sums}) {
    EXPECT_FALSE(changed(shape, [](MatmulShape& s) { s.bias = true; }));
    EXPECT_FALSE(changed(shape, [](MatmulShape& s) { (s.m == 8 ? s.m : s.n == 8 ? s.n : s.k) = 17; }));
    EXPECT_FALSE(changed(shape, [](MatmulShape& s) { (s.n == 896 ? s.n : s.k) = 63; }));
  }
  for (const MatmulShape& shape : {terms, columns})
    EXPECT_FALSE(changed(shape, [](MatmulShape& s) { s.result = DType::kF32; }));
  EXPECT_FALSE(changed(columns, [](MatmulShape& s) { s.accumulate = true; }));
  EXPECT_FALSE(changed(sums, [](MatmulShape& s) { s.result = DType::kBF16; }));
  EXPECT_FALSE(changed(sums, [](MatmulShape& s) { s.transpose_b = true; }));
}

// 64 and more, and eight times as many as there are terms.
TEST(ThinForm, NeedsManyColumnsForItsTerms) {
  for (const auto& [thin, wide] : {std::pair{1, 64}, {3, 64}, {8, 64}, {9, 72}, {16, 128}}) {
    const MatmulShape terms{.m = 40, .n = wide, .k = thin};
    EXPECT_EQ(thin_form(terms), ThinForm::kTerms) << thin << " terms of " << wide << " columns";
    MatmulShape fewer = terms;
    fewer.n = wide - 1;
    EXPECT_FALSE(thin_form(fewer)) << thin << " terms of " << wide - 1 << " columns";
  }
}

}  // namespace
}  // namespace shoehorn::cpu
