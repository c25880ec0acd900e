#include "exec/cpu/elementwise/rotary.h"

#include "base/error.h"
#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;

// Positions as packed documents have them, and far ones.
std::vector<int32_t> positions_of(int64_t rows) {
  std::vector<int32_t> positions;
  for (int64_t row = 0; row < rows; ++row)
    positions.push_back(static_cast<int32_t>(row % 3 == 0 ? row * 7919 : row % 11));
  return positions;
}

std::vector<float> frequencies_of(int64_t pairs) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < pairs; ++i)
    frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(pairs)));
  return frequencies;
}

// The angle is a float product; what is made of it is exact to the libraries' last place.
TEST(RotaryTable, IsOfTheFloatAngle) {
  for (const int64_t pairs : {1, 7, 32}) {
    for (const int64_t rows : {0, 1, 70}) {
      const std::vector<int32_t> positions = positions_of(rows);
      const std::vector<float> frequencies = frequencies_of(pairs);
      constexpr float kFactor = 1.25F;
      std::vector<float> table(static_cast<size_t>(rows * 2 * pairs), NAN);
      rotary_table({.rows = rows,
                    .pairs = pairs,
                    .attention_factor = kFactor,
                    .frequencies = frequencies.data(),
                    .positions = positions.data(),
                    .table = table.data()});
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < pairs; ++i) {
          const float angle =
              static_cast<float>(positions[static_cast<size_t>(row)]) * frequencies[static_cast<size_t>(i)];
          const auto at = static_cast<size_t>(row * 2 * pairs + i);
          // One rounding of the function and one of the product, and the function's own last place.
          constexpr double kError = 4 * 0x1p-24;
          ASSERT_NEAR(table[at], kFactor * std::cos(static_cast<double>(angle)), kError);
          ASSERT_NEAR(table[at + static_cast<size_t>(pairs)], kFactor * std::sin(static_cast<double>(angle)),
                      kError);
        }
      }
    }
  }
}

struct RotaryLayout {
  int64_t columns, first_column, heads, head_size, pairs;
};

// All columns of all heads, a part of each head, and heads between other columns.
constexpr RotaryLayout kLayouts[] = {{2, 0, 1, 2, 1},     {64, 0, 2, 32, 16},  {30, 0, 3, 10, 5},
                                     {42, 0, 3, 14, 4},   {100, 7, 3, 20, 10}, {100, 7, 3, 20, 3},
                                     {192, 64, 1, 64, 32}};

class RotaryKernel : public test_support::EveryTarget {};

TEST_P(RotaryKernel, TurnsPairsAndKeepsTheRest) {
  for (const DType dtype : kStorages) {
    for (const RotaryLayout& layout : kLayouts) {
      for (const int64_t rows : {0, 1, 19}) {
        for (const bool inverse : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} columns, {} heads, {} pairs, {} rows", dtype_name(dtype),
                                   layout.columns, layout.heads, layout.pairs, rows));
          Tensor table = random_tensor(DType::kF32, rows * 2 * layout.pairs, 1);
          const Tensor x = random_tensor(dtype, rows * layout.columns, 2);
          Tensor y(dtype, x.count());
          Rotary call{.dtype = dtype,
                      .rows = rows,
                      .columns = layout.columns,
                      .first_column = layout.first_column,
                      .heads = layout.heads,
                      .head_size = layout.head_size,
                      .pairs = layout.pairs,
                      .inverse = inverse,
                      .table = table.floats(),
                      .x = x.data(),
                      .y = y.data()};
          rotary(call);
          for (int64_t at = 0; at < x.count(); ++at) {
            const int64_t row = at / layout.columns;
            const int64_t column = at % layout.columns - layout.first_column;
            const bool is_of_head = column >= 0 && column < layout.heads * layout.head_size;
            const int64_t place = is_of_head ? column % layout.head_size : layout.head_size;
            if (place >= 2 * layout.pairs) {
              ASSERT_EQ(y[at], x[at]) << at;
              continue;
            }
            const int64_t pair = place % layout.pairs;
            const bool is_first = place < layout.pairs;
            const double cosine = table[row * 2 * layout.pairs + pair];
            const double sine = (inverse ? -1.0 : 1.0) * table[row * 2 * layout.pairs + layout.pairs + pair];
            const double other = x[is_first ? at + layout.pairs : at - layout.pairs];
            const double own = x[at];
            const double expected = own * cosine + (is_first ? -other : other) * sine;
            ASSERT_NEAR(y[at], expected,
                        tolerance(dtype, expected, std::abs(own * cosine) + std::abs(other * sine), 2))
                << at;
          }
          Tensor in_place = x;
          call.x = call.y = in_place.data();
          rotary(call);
          EXPECT_EQ(in_place.bytes(), y.bytes()) << "in place";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RotaryKernel, test_support::every_target(), test_support::target_name);

TEST(RotaryKernel, ThreadsLeaveNoTrace) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kPairs = 32;
  const std::vector<int32_t> positions = positions_of(kRows);
  const std::vector<float> frequencies = frequencies_of(kPairs);
  const Tensor x = random_tensor(DType::kF32, kRows * 256, 1);
  const auto run = [&](int threads) {
    Tensor table(DType::kF32, kRows * 2 * kPairs);
    Tensor y(DType::kF32, x.count());
    with_threads(threads, [&] {
      rotary_table({kRows, kPairs, 1.0F, frequencies.data(), positions.data(), table.floats()});
      rotary({DType::kF32, kRows, 256, 0, 4, 64, kPairs, false, table.floats(), x.data(), y.data()});
    });
    return std::pair(table.bytes(), y.bytes());
  };
  EXPECT_EQ(run(1), run(3));
}

TEST(RotaryKernel, OtherTypesAreRejected) {
  EXPECT_THROW(rotary({DType::kI32, 0, 2, 0, 1, 2, 1, false, nullptr, nullptr, nullptr}), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
