#include "exec/cpu/elementwise/column_blocks.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

#include "base/error.h"
#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/parallel.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

// Where row r and column c lie.
int64_t place(int64_t r, int64_t c, int64_t k) {
  const int64_t rows = ceil_divide(k, kBlockRows) * kBlockRows;
  return (c / kBlockColumns * rows + r) * kBlockColumns + c % kBlockColumns;
}

class ColumnBlocksKernel : public test_support::EveryTarget {};

TEST_P(ColumnBlocksKernel, HasEveryElementInItsPlaceAndZerosAround) {
  for (const DType dtype : kStorages) {
    for (const auto& [k, n] :
         {std::pair<int64_t, int64_t>{1, 1}, {16, 64}, {15, 63}, {17, 65}, {48, 192}, {130, 21}, {3, 300}}) {
      for (const bool transposed : {false, true}) {
        const int64_t row_stride = (transposed ? k : n) + (n > 64 ? 7 : 0);
        const Tensor b = random_tensor(dtype, (transposed ? n : k) * row_stride, 1);
        const int64_t rows = ceil_divide(k, kBlockRows) * kBlockRows;
        const int64_t columns = ceil_divide(n, kBlockColumns) * kBlockColumns;
        constexpr int64_t kGuard = 16;
        Tensor blocks = random_tensor(DType::kF32, rows * columns + kGuard, 2);
        const Tensor before = blocks;
        make_column_blocks({.dtype = dtype,
                            .k = k,
                            .n = n,
                            .transposed = transposed,
                            .row_stride = row_stride,
                            .b = b.data(),
                            .blocks = blocks.floats()});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            const bool inside = r < k && c < n;
            const float expected = inside ? b[transposed ? c * row_stride + r : r * row_stride + c] : 0;
            ASSERT_EQ(std::bit_cast<uint32_t>(blocks[place(r, c, k)]), std::bit_cast<uint32_t>(expected))
                << r << ", " << c << " of " << k << " x " << n << (transposed ? " transposed" : "");
          }
        }
        for (int64_t i = rows * columns; i < blocks.count(); ++i)
          ASSERT_EQ(blocks[i], before[i]) << "written behind the end";
      }
    }
  }
}

// Where the element in row r and column c lies, in blocks of pairs.
int64_t place_of_pair(int64_t r, int64_t c, int64_t k) {
  const int64_t pairs = ceil_divide(k, 2 * kBlockPairs) * kBlockPairs;
  return ((c / kBlockColumns * pairs + r / 2) * kBlockColumns + c % kBlockColumns) * 2 + r % 2;
}

TEST_P(ColumnBlocksKernel, PairsHaveEveryElementInItsPlaceAndZerosAround) {
  for (const auto& [k, n] :
       {std::pair<int64_t, int64_t>{1, 1}, {32, 64}, {31, 63}, {34, 65}, {96, 192}, {130, 21}, {3, 300}}) {
    for (const bool transposed : {false, true}) {
      for (const int64_t gap : {0, 7, 8}) {
        SCOPED_TRACE(fmt::format("{} x {}{}, gap {}", k, n, transposed ? " transposed" : "", gap));
        const int64_t row_stride = (transposed ? k : n) + gap;
        // Every bit pattern is moved as it is: those of no number too.
        std::vector<uint16_t> b(static_cast<size_t>((transposed ? n : k) * row_stride));
        for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint16_t>(i * 40503 + 1);
        const int64_t count =
            ceil_divide(k, 2 * kBlockPairs) * 2 * kBlockPairs * ceil_divide(n, kBlockColumns) * kBlockColumns;
        constexpr int64_t kGuard = 32;
        constexpr uint16_t kUntouched = 0xABCD;
        std::vector<uint16_t> blocks(static_cast<size_t>(count + kGuard), kUntouched);
        std::vector<uint16_t> expected(static_cast<size_t>(count), 0);
        expected.resize(blocks.size(), kUntouched);
        for (int64_t r = 0; r < k; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            expected[static_cast<size_t>(place_of_pair(r, c, k))] =
                b[static_cast<size_t>(transposed ? c * row_stride + r : r * row_stride + c)];
          }
        }
        make_column_pair_blocks({.k = k,
                                 .n = n,
                                 .transposed = transposed,
                                 .row_stride = row_stride,
                                 .b = b.data(),
                                 .blocks = blocks.data()});
        ASSERT_EQ(blocks, expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ColumnBlocksKernel, test_support::every_target(),
                         test_support::target_name);

TEST(ColumnBlocksKernel, ThreadsLeaveNoTrace) {
  for (const bool transposed : {false, true}) {
    const Tensor b = random_tensor(DType::kF32, 700 * 200, 3);
    const auto made = [&](int threads) {
      Tensor blocks(DType::kF32, 704 * 256);
      with_threads(threads, [&] {
        make_column_blocks({.dtype = DType::kF32,
                            .k = 700,
                            .n = 200,
                            .transposed = transposed,
                            .row_stride = transposed ? 700 : 200,
                            .b = b.data(),
                            .blocks = blocks.floats()});
      });
      return blocks;
    };
    const Tensor one = made(1);
    for (const int threads : {2, 3}) EXPECT_EQ(made(threads).bytes(), one.bytes()) << threads;
  }
}

TEST(ColumnBlocksKernel, RejectsWhatIsNoFloat) {
  EXPECT_THROW(make_column_blocks({.dtype = DType::kI64,
                                   .k = 1,
                                   .n = 1,
                                   .transposed = false,
                                   .row_stride = 1,
                                   .b = nullptr,
                                   .blocks = nullptr}),
               InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
