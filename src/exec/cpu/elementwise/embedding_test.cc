#include "exec/cpu/elementwise/embedding.h"

#include <algorithm>

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

std::vector<int32_t> random_ids(int64_t count, int32_t entries, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(generator() % static_cast<uint32_t>(entries)));
  return ids;
}

class Embedding : public test_support::EveryTarget {};

TEST_P(Embedding, Forward) {
  for (const DType table_dtype : kStorages) {
    for (const DType dtype : kStorages) {
      for (const int64_t hidden : {1, 16, 37, 200}) {
        for (const int64_t rows : {0, 1, 150}) {
          const Tensor table = random_tensor(table_dtype, 11 * hidden, 1);
          const Tensor addend = random_tensor(dtype, rows * hidden, 2);
          const std::vector<int32_t> ids = random_ids(rows, 11, 3);
          Tensor plain(dtype, rows * hidden);
          Tensor sum = addend;
          EmbeddingForward arguments{.table_dtype = table_dtype,
                                     .dtype = dtype,
                                     .rows = rows,
                                     .hidden = hidden,
                                     .entries = 11,
                                     .table = table.data(),
                                     .ids = ids.data(),
                                     .addend = nullptr,
                                     .y = plain.data()};
          embedding_forward(arguments);
          arguments.addend = sum.data();
          arguments.y = sum.data();
          embedding_forward(arguments);
          for (int64_t at = 0; at < rows * hidden; ++at) {
            const float entry = table[ids[static_cast<size_t>(at / hidden)] * hidden + at % hidden];
            Tensor expected(dtype, {entry, entry + addend[at]});
            ASSERT_EQ(plain[at], expected[0]);
            ASSERT_EQ(sum[at], expected[1]);
          }
        }
      }
    }
  }
}

TEST_P(Embedding, BackwardAddsRowsInTheirOrder) {
  for (const DType dtype : kStorages) {
    for (const int64_t hidden : {1, 16, 37, 200}) {
      for (const int64_t padding : {-1, 0}) {
        for (const bool accumulate : {false, true}) {
          constexpr int64_t kRows = 150;
          const Tensor dy = random_tensor(dtype, kRows * hidden, 1);
          const std::vector<int32_t> ids = random_ids(kRows, 11, 2);
          Tensor dtable = random_tensor(DType::kF32, 11 * hidden, 3);
          Tensor expected = accumulate ? dtable : Tensor(DType::kF32, 11 * hidden);
          for (int64_t at = 0; at < kRows * hidden; ++at) {
            const int64_t id = ids[static_cast<size_t>(at / hidden)];
            const int64_t to = id * hidden + at % hidden;
            if (id != padding) expected.set(to, expected[to] + dy[at]);
          }
          for (const int threads : {1, 2, 3}) {
            Tensor result = dtable;
            with_threads(threads, [&] {
              embedding_backward({.dtype = dtype,
                                  .rows = kRows,
                                  .hidden = hidden,
                                  .entries = 11,
                                  .dy = dy.data(),
                                  .ids = ids.data(),
                                  .padding_index = padding,
                                  .accumulate = accumulate,
                                  .dtable = result.floats()});
            });
            ASSERT_EQ(result.bytes(), expected.bytes());
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Embedding, test_support::every_target(), test_support::target_name);

TEST(Embedding, RefusesIdsOutsideTheTable) {
  for (const int32_t bad : {-1, 11, 30000}) {
    const std::vector<int32_t> ids{0, bad};
    Tensor y(DType::kF32, std::vector<float>{7, 7});
    const Tensor table(DType::kF32, 11);
    EXPECT_THROW(embedding_forward({.table_dtype = DType::kF32,
                                    .dtype = DType::kF32,
                                    .rows = 2,
                                    .hidden = 1,
                                    .entries = 11,
                                    .table = table.data(),
                                    .ids = ids.data(),
                                    .addend = nullptr,
                                    .y = y.data()}),
                 UserError);
    EXPECT_EQ(y[0], 7.0F) << "nothing written";
    Tensor dtable(DType::kF32, 11);
    EXPECT_THROW(embedding_backward({.dtype = DType::kF32,
                                     .rows = 2,
                                     .hidden = 1,
                                     .entries = 11,
                                     .dy = y.data(),
                                     .ids = ids.data(),
                                     .padding_index = -1,
                                     .accumulate = false,
                                     .dtable = dtable.floats()}),
                 UserError);
  }
}

TEST(Rows, ScatterUndoesGather) {
  for (const DType dtype : kStorages) {
    for (const int64_t hidden : {1, 33, 300}) {
      constexpr int64_t kRows = 90;
      std::vector<int32_t> index(kRows);
      for (int32_t i = 0; i < kRows; ++i) index[static_cast<size_t>(i)] = i;
      std::shuffle(index.begin(), index.end(), std::mt19937(1));
      index.resize(31);
      const Tensor x = random_tensor(dtype, kRows * hidden, 1);
      Tensor y(dtype, 31 * hidden);
      Tensor back = random_tensor(dtype, kRows * hidden, 2);
      gather_rows({.dtype = dtype,
                   .rows = kRows,
                   .selected = 31,
                   .hidden = hidden,
                   .x = x.data(),
                   .index = index.data(),
                   .y = y.data()});
      scatter_rows({.dtype = dtype,
                    .rows = kRows,
                    .selected = 31,
                    .hidden = hidden,
                    .x = y.data(),
                    .index = index.data(),
                    .y = back.data()});
      std::vector<bool> chosen(kRows, false);
      for (size_t s = 0; s < index.size(); ++s) {
        chosen[static_cast<size_t>(index[s])] = true;
        for (int64_t i = 0; i < hidden; ++i) {
          ASSERT_EQ(y[static_cast<int64_t>(s) * hidden + i], x[index[s] * hidden + i]);
        }
      }
      for (int64_t at = 0; at < kRows * hidden; ++at) {
        ASSERT_EQ(back[at], chosen[static_cast<size_t>(at / hidden)] ? x[at] : 0.0F);
      }
    }
  }
}

TEST(Rows, NumbersOfRowsAreGatheredToo) {
  const std::vector<int32_t> positions = {4, 8, 15, 16, 23, 42};
  const std::vector<int32_t> start = {0, 2, 3};
  const std::vector<int32_t> length = {2, 1, 3};
  std::vector<int32_t> last(3), y(3);
  last_rows({.sequences = 3, .start = start.data(), .length = length.data(), .last = last.data()});
  EXPECT_EQ(last, (std::vector<int32_t>{1, 2, 5}));
  gather_rows({.dtype = DType::kI32,
               .rows = 6,
               .selected = 3,
               .hidden = 1,
               .x = positions.data(),
               .index = last.data(),
               .y = y.data()});
  EXPECT_EQ(y, (std::vector<int32_t>{8, 15, 42}));
}

TEST(Rows, TheLastOneThatIsNoPadding) {
  const std::vector<int32_t> ids = {9, 7, 9, 9, 9, 9, 5, 6, 9};
  const std::vector<int32_t> start = {0, 4, 6};
  const std::vector<int32_t> length = {4, 2, 3};
  std::vector<int32_t> last(3);
  last_rows({.sequences = 3,
             .start = start.data(),
             .length = length.data(),
             .ids = ids.data(),
             .padding_index = 9,
             .last = last.data()});
  EXPECT_EQ(last, (std::vector<int32_t>{1, 4, 7})) << "all of the second is padding: its first";
}

TEST(Rows, RefusesAnIndexOutside) {
  const std::vector<int32_t> index{3};
  Tensor x(DType::kF32, 3), y(DType::kF32, 1);
  EXPECT_THROW(gather_rows({.dtype = DType::kF32,
                            .rows = 3,
                            .selected = 1,
                            .hidden = 1,
                            .x = x.data(),
                            .index = index.data(),
                            .y = y.data()}),
               InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
