#include "exec/cpu/elementwise/columns.h"

#include "base/error.h"
#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;

struct Range {
  int64_t columns, offset, width;
};

// The first, a middle and the last part of odd and of even widths, one column, all columns.
constexpr Range kRanges[] = {{1, 0, 1},    {7, 2, 3},    {33, 0, 11},   {33, 11, 11},
                             {33, 22, 11}, {96, 32, 32}, {129, 128, 1}, {65, 0, 65}};

class AddColumnsKernel : public test_support::EveryTarget {};

TEST_P(AddColumnsKernel, AddsToTheRangeAndKeepsTheRest) {
  for (const DType dtype : kStorages) {
    for (const auto& [columns, offset, width] : kRanges) {
      for (const int64_t rows : {0, 1, 19}) {
        const Tensor x = random_tensor(dtype, rows * columns, 1);
        const Tensor addend = random_tensor(dtype, rows * width, 2);
        Tensor y(dtype, rows * columns);
        AddColumns call{.dtype = dtype,
                        .rows = rows,
                        .columns = columns,
                        .offset = offset,
                        .width = width,
                        .x = x.data(),
                        .addend = addend.data(),
                        .y = y.data()};
        add_columns(call);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            const int64_t at = row * columns + column;
            const bool inside = column >= offset && column < offset + width;
            double expected = x[at];
            if (inside) expected += addend[row * width + column - offset];
            const double magnitude = inside ? std::abs(expected) : 0;
            ASSERT_NEAR(y[at], expected, inside ? tolerance(dtype, expected, magnitude, 1) : 0)
                << row << ", " << column << " of " << columns;
          }
        }
        Tensor in_place = x;
        call.x = in_place.data();
        call.y = in_place.data();
        add_columns(call);
        EXPECT_EQ(in_place.bytes(), y.bytes()) << "in place";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AddColumnsKernel, test_support::every_target(), test_support::target_name);

TEST(TakeColumnsKernel, CopiesTheRange) {
  for (const DType dtype : kStorages) {
    for (const auto& [columns, offset, width] : kRanges) {
      constexpr int64_t kRows = 19;
      const Tensor x = random_tensor(dtype, kRows * columns, 1);
      Tensor y(dtype, kRows * width);
      take_columns({.dtype = dtype,
                    .rows = kRows,
                    .columns = columns,
                    .offset = offset,
                    .width = width,
                    .x = x.data(),
                    .y = y.data()});
      for (int64_t i = 0; i < y.count(); ++i)
        ASSERT_EQ(y[i], x[i / width * columns + offset + i % width]) << i << " of " << columns;
    }
  }
}

TEST(SpreadColumnsKernel, FillsTheRangeAndZerosTheRest) {
  for (const DType dtype : kStorages) {
    for (const auto& [columns, offset, width] : kRanges) {
      constexpr int64_t kRows = 19;
      const Tensor x = random_tensor(dtype, kRows * width, 1);
      Tensor y = random_tensor(dtype, kRows * columns, 2);
      spread_columns({.dtype = dtype,
                      .rows = kRows,
                      .columns = columns,
                      .offset = offset,
                      .width = width,
                      .x = x.data(),
                      .y = y.data()});
      for (int64_t i = 0; i < y.count(); ++i) {
        const int64_t column = i % columns - offset;
        const bool inside = column >= 0 && column < width;
        ASSERT_EQ(y[i], inside ? x[i / columns * width + column] : 0.0F) << i << " of " << columns;
      }
    }
  }
}

class PutColumnsKernel : public test_support::EveryTarget {};

TEST_P(PutColumnsKernel, RoundsIntoTheRangeAndKeepsTheRest) {
  for (const DType dtype : kStorages) {
    for (const auto& [columns, offset, width] : kRanges) {
      constexpr int64_t kRows = 19;
      Tensor x = random_tensor(DType::kF32, kRows * width, 1);
      const Tensor before = random_tensor(dtype, kRows * columns, 2);
      Tensor y = before;
      put_columns({.dtype = dtype,
                   .rows = kRows,
                   .columns = columns,
                   .offset = offset,
                   .width = width,
                   .x = x.floats(),
                   .y = y.data()});
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          const int64_t at = row * columns + column;
          const bool inside = column >= offset && column < offset + width;
          const double expected = inside ? x[row * width + column - offset] : before[at];
          ASSERT_NEAR(y[at], expected, inside ? tolerance(dtype, expected, 0, 0) : 0)
              << row << ", " << column << " of " << columns;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PutColumnsKernel, test_support::every_target(), test_support::target_name);

class WidenRowsKernel : public test_support::EveryTarget {};

TEST_P(WidenRowsKernel, PutsEachRowAtItsPlaceAndNothingBehindIt) {
  constexpr float kBefore = 7;
  for (const DType dtype : kStorages) {
    for (const auto& [columns, stride] :
         {std::pair<int64_t, int64_t>{1, 1}, {19, 19}, {19, 24}, {512, 528}}) {
      for (const int64_t rows : {0, 1, 11}) {
        const Tensor x = random_tensor(dtype, rows * columns, 1);
        std::vector<float> y(static_cast<size_t>(rows * stride), kBefore);
        widen_rows({.dtype = dtype,
                    .rows = rows,
                    .columns = columns,
                    .stride = stride,
                    .x = x.data(),
                    .y = y.data()});
        for (int64_t at = 0; at < rows * stride; ++at) {
          const int64_t row = at / stride, column = at % stride;
          const double expected = column < columns ? x[row * columns + column] : kBefore;
          ASSERT_EQ(y[static_cast<size_t>(at)], expected) << row << ", " << column << " of " << columns;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, WidenRowsKernel, test_support::every_target(), test_support::target_name);

TEST(Columns, ThreadsLeaveNoTrace) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kColumns = 384;
  const Tensor x = random_tensor(DType::kF32, kRows * kColumns, 1);
  const Tensor addend = random_tensor(DType::kF32, kRows * kColumns / 3, 2);
  const auto run = [&](int threads) {
    Tensor sum(DType::kF32, x.count());
    Tensor taken(DType::kF32, addend.count());
    Tensor put(DType::kBF16, x.count());
    Tensor spread(DType::kF32, x.count());
    Tensor widened(DType::kF32, x.count());
    with_threads(threads, [&] {
      add_columns({DType::kF32, kRows, kColumns, 128, 128, x.data(), addend.data(), sum.data()});
      take_columns({DType::kF32, kRows, kColumns, 128, 128, sum.data(), taken.data()});
      put_columns({DType::kBF16, kRows, kColumns, 128, 128, taken.floats(), put.data()});
      spread_columns({DType::kF32, kRows, kColumns, 128, 128, taken.data(), spread.data()});
      widen_rows({DType::kBF16, kRows, kColumns, kColumns, put.data(), widened.floats()});
    });
    return std::tuple(sum.bytes(), taken.bytes(), put.bytes(), spread.bytes(), widened.bytes());
  };
  EXPECT_EQ(run(1), run(3));
}

TEST(Columns, OtherTypesAreRejected) {
  EXPECT_THROW(add_columns({DType::kI32, 0, 1, 0, 1, nullptr, nullptr, nullptr}), InternalError);
  EXPECT_THROW(take_columns({DType::kI32, 0, 1, 0, 1, nullptr, nullptr}), InternalError);
  EXPECT_THROW(spread_columns({DType::kI32, 0, 1, 0, 1, nullptr, nullptr}), InternalError);
  EXPECT_THROW(put_columns({DType::kI32, 0, 1, 0, 1, nullptr, nullptr}), InternalError);
  EXPECT_THROW(widen_rows({DType::kI32, 0, 1, 1, nullptr, nullptr}), InternalError);
  EXPECT_THROW(widen_rows({DType::kF32, 0, 2, 1, nullptr, nullptr}), InternalError) << "rows that overlap";
}

}  // namespace
}  // namespace shoehorn::cpu
