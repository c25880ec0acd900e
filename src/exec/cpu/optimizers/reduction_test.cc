#include "exec/cpu/optimizers/reduction.h"

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;
using test_support::workspace;

void sum_columns(const Tensor& x, int64_t rows, int64_t columns, bool accumulate, Tensor& sum) {
  Tensor scratch = workspace(column_sum_workspace_bytes(rows, columns));
  column_sum({.dtype = x.dtype(),
              .rows = rows,
              .columns = columns,
              .x = x.data(),
              .sum = sum.floats(),
              .accumulate = accumulate,
              .workspace = scratch.data()});
}

class Reduction : public test_support::EveryTarget {};

TEST_P(Reduction, ColumnSum) {
  for (const DType dtype : kStorages) {
    for (const int64_t columns : {1, 16, 33, 300}) {
      for (const int64_t rows : {0, 1, 63, 64, 65, 259}) {
        const Tensor x = random_tensor(dtype, rows * columns, 1, 1.0F);
        for (const bool accumulate : {false, true}) {
          Tensor sum = random_tensor(DType::kF32, columns, 2);
          std::vector<double> expected(static_cast<size_t>(columns), 0.0);
          for (int64_t i = 0; accumulate && i < columns; ++i)
            expected[static_cast<size_t>(i)] = static_cast<double>(sum[i]);
          for (int64_t i = 0; i < x.count(); ++i)
            expected[static_cast<size_t>(i % columns)] += static_cast<double>(x[i]);
          sum_columns(x, rows, columns, accumulate, sum);
          for (int64_t i = 0; i < columns; ++i) {
            const double terms = static_cast<double>(rows) + 2.0;
            ASSERT_NEAR(static_cast<double>(sum[i]), expected[static_cast<size_t>(i)],
                        tolerance(DType::kF32, 0.0, 2.0 * terms, 4.0 + std::sqrt(terms)));
          }
        }
      }
    }
  }
}

struct List {
  List() {
    for (const int64_t count : {0, 1, 5, 16384, 16385, 50001, 25}) {
      for (const DType dtype : kStorages) {
        tensors.push_back(random_tensor(dtype, count, static_cast<uint32_t>(count + 1)));
      }
    }
    refresh();
  }
  void refresh() {
    views.clear();
    for (const Tensor& t : tensors) views.push_back({t.dtype(), t.count(), t.data()});
  }
  double squares() const {
    Tensor scratch = workspace(sum_of_squares_workspace_bytes(views));
    double total = -1;
    sum_of_squares(views, &total, scratch.data());
    return total;
  }
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
};

TEST_P(Reduction, SumOfSquares) {
  const List list;
  double expected = 0;
  for (const Tensor& t : list.tensors) {
    for (int64_t i = 0; i < t.count(); ++i) expected += static_cast<double>(t[i]) * static_cast<double>(t[i]);
  }
  EXPECT_NEAR(list.squares(), expected, 1e-12 * expected);

  double total = -1;
  sum_of_squares({}, &total, nullptr);
  EXPECT_EQ(total, 0.0);
}

// One in the middle of a tensor of several chunks.
TEST_P(Reduction, SumOfSquaresOfNoNumberIsNone) {
  List list;
  list.tensors.at(15).set(20000, NAN);
  list.refresh();
  EXPECT_TRUE(std::isnan(list.squares()));
}

INSTANTIATE_TEST_SUITE_P(Targets, Reduction, test_support::every_target(), test_support::target_name);

TEST(Reduction, ThreadsLeaveNoTrace) {
  const List list;
  const Tensor x = random_tensor(DType::kF32, 700 * 301, 1);
  double one = 0;
  Tensor sum(DType::kF32, 301);
  with_threads(1, [&] {
    one = list.squares();
    sum_columns(x, 700, 301, false, sum);
  });
  for (const int threads : {2, 3}) {
    with_threads(threads, [&] {
      EXPECT_EQ(list.squares(), one);
      Tensor other(DType::kF32, 301);
      sum_columns(x, 700, 301, false, other);
      EXPECT_EQ(other.bytes(), sum.bytes());
    });
  }
}

TEST(Reduction, ClipCoefficient) {
  float norm = 0;
  float coefficient = 0;
  const double four = 4.0;
  clip_coefficient(&four, nullptr, 1.0F, &norm, &coefficient);
  EXPECT_EQ(norm, 2.0F);
  EXPECT_EQ(coefficient, 1.0F / (2.0F + 1e-6F));
  clip_coefficient(&four, nullptr, 3.0F, &norm, &coefficient);
  EXPECT_EQ(coefficient, 1.0F);
  clip_coefficient(&four, nullptr, 0.0F, &norm, &coefficient);
  EXPECT_EQ(coefficient, 1.0F);
  EXPECT_EQ(norm, 2.0F);
  const double nan = NAN;
  clip_coefficient(&nan, nullptr, 1.0F, &norm, &coefficient);
  EXPECT_TRUE(std::isnan(coefficient));
}

// Gradients times a loss scale of 2^100 have the norm and, times the coefficient, the size of unscaled ones;
// a sum of squares beyond float32's range is no overflow.
TEST(Reduction, ClipCoefficientTakesTheLossScaleOut) {
  float norm = 0;
  float coefficient = 0;
  const double squares = 4.0 * 0x1p200;
  const float unscale = 0x1p-100F;
  clip_coefficient(&squares, &unscale, 1.0F, &norm, &coefficient);
  EXPECT_EQ(norm, 2.0F);
  EXPECT_EQ(coefficient, 1.0F / (2.0F + 1e-6F) * 0x1p-100F);
  clip_coefficient(&squares, &unscale, 3.0F, &norm, &coefficient);
  EXPECT_EQ(coefficient, 0x1p-100F);
  const double infinite = INFINITY;
  clip_coefficient(&infinite, &unscale, 1.0F, &norm, &coefficient);
  EXPECT_EQ(norm, INFINITY);
}

}  // namespace
}  // namespace shoehorn::cpu
