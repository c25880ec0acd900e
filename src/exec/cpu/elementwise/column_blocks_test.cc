#include "exec/cpu/elementwise/column_blocks.h"

#include <bit>

#include "base/error.h"
#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/parallel.h"

namespace shoehorn::cpu {
namespace {

using testing::kStorages;
using testing::random_tensor;
using testing::Tensor;
using testing::with_threads;

// Where row r and column c lie.
int64_t place(int64_t r, int64_t c, int64_t k) {
  const int64_t rows = ceil_divide(k, kBlockRows) * kBlockRows;
  return (c / kBlockColumns * rows + r) * kBlockColumns + c % kBlockColumns;
}

class ColumnBlocksKernel : public testing::EveryTarget {};

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

INSTANTIATE_TEST_SUITE_P(Targets, ColumnBlocksKernel, testing::every_target(), testing::target_name);

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
