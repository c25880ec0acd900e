#include "state/parts_of_ranks.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "ops/ring.h"
#include "ranks/thread_ranks_testing.h"

namespace shoehorn {
namespace {

using test_support::run_ranks;
using test_support::thread_ranks;

ShardedTensor part_of_rank(int64_t elements, const Communicator& ranks) {
  const RingSegment cut = ring_segment(elements, ranks.size());
  const ElementRange own = part_of(cut, ranks.rank());
  return {.shape = {elements},
          .shard = Shard{.slice = Slice::range(own.begin, own.end),
                         .padding = cut.piece - own.size(),
                         .owner = ranks.rank()}};
}

// Of any size and in any ranges, also where the last ranks have nothing.
TEST(PartsOfRanks, TheFirstReadsWhatTheOthersHave) {
  for (const int32_t size : {1, 2, 4, 7}) {
    for (const int64_t elements : {1, 5, 8, 100}) {
      for (const int64_t at_a_time : {1, 3, 64, 200}) {
        std::vector<float> whole(static_cast<size_t>(elements));
        run_ranks(thread_ranks(size), [&](Communicator& ranks) {
          const PartsOfRanks parts(&ranks);
          EXPECT_EQ(parts.is_first(), ranks.rank() == 0);
          const ShardedTensor tensor = part_of_rank(elements, ranks);
          int64_t next = 0;
          std::vector<float> values(static_cast<size_t>(elements));
          for (int64_t offset = 0; offset < elements; offset += at_a_time) {
            const auto range = std::span(values).subspan(
                static_cast<size_t>(offset), static_cast<size_t>(std::min(at_a_time, elements - offset)));
            parts.read(tensor, offset, range, [&](int64_t first, std::span<float> own) {
              EXPECT_EQ(first, next) << "in ascending order";
              next += std::ssize(own);
              for (float& value : own) value = static_cast<float>(tensor.slice().global_of(first++));
            });
          }
          EXPECT_EQ(next, tensor.local_elements());
          if (parts.is_first()) whole = values;
        });
        std::vector<float> expected(static_cast<size_t>(elements));
        std::iota(expected.begin(), expected.end(), 0.0F);
        EXPECT_EQ(whole, expected) << elements << " on " << size << " ranks, " << at_a_time << " at a time";
      }
    }
  }
}

// What each rank has whole is the first one's to read, and nothing is sent.
TEST(PartsOfRanks, WholeTensorsAreReadWhereTheyAre) {
  const auto ranks = thread_ranks(3);
  run_ranks(ranks, [](Communicator& own_rank) {
    int reads = 0;
    std::vector<float> values(5);
    PartsOfRanks(&own_rank).read({.shape = {5}, .shard = {}}, 0, values,
                                 [&](int64_t, std::span<float>) { ++reads; });
    EXPECT_EQ(reads, own_rank.rank() == 0 ? 1 : 0);
  });
  for (const auto& rank : ranks) EXPECT_EQ(rank->sent_bytes(), 0);
}

TEST(PartsOfRanks, APartAloneIsNotAWhole) {
  const ShardedTensor part = {.shape = {8}, .shard = Shard{.slice = Slice::range(0, 4)}};
  std::vector<float> values(8);
  EXPECT_THROW(PartsOfRanks(nullptr).read(part, 0, values, [](int64_t, std::span<float>) {}), InternalError);
}

TEST(PartsOfRanks, FillsAsAWriterDoes) {
  std::vector<std::byte> staging(16);
  std::vector<std::pair<int64_t, size_t>> chunks;
  fill_unwritten({"x", DType::kF32, {9}}, staging, [&](int64_t offset, std::span<std::byte> chunk) {
    chunks.emplace_back(offset, chunk.size());
  });
  EXPECT_EQ(chunks, (std::vector<std::pair<int64_t, size_t>>{{0, 16}, {16, 16}, {32, 4}}));
}

}  // namespace
}  // namespace shoehorn
