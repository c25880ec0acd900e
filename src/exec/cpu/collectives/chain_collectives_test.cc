#include "exec/cpu/collectives/chain_collectives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "ranks/thread_ranks_testing.h"

namespace shoehorn::cpu {
namespace {

using Tensors = std::vector<std::vector<float>>;

const std::vector<size_t> kTensorSizes = {17, 1, 5000, 333, 1024};

Tensors terms_of(int32_t rank) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 7);
  std::normal_distribution<float> normal;
  Tensors tensors;
  for (const size_t size : kTensorSizes) {
    std::vector<float>& tensor = tensors.emplace_back(size);
    for (float& x : tensor) x = normal(random);
  }
  return tensors;
}

struct ChainOutcome {
  std::vector<Tensors> ranks;
  std::vector<int64_t> sent_bytes;
};

// What ranks have behind a collective over their terms, in pieces of at most so many bytes.
ChainOutcome run_chain(void (*collective)(const ChainCall&), int32_t size, int64_t most_bytes) {
  const auto ranks = shoehorn::test_support::thread_ranks(size);
  ChainOutcome outcome{std::vector<Tensors>(ranks.size()), {}};
  shoehorn::test_support::run_ranks(ranks, [&](Communicator& own) {
    Tensors& tensors = outcome.ranks[static_cast<size_t>(own.rank())];
    tensors = terms_of(own.rank());
    std::vector<std::span<std::byte>> bytes;
    for (std::vector<float>& tensor : tensors) bytes.push_back(std::as_writable_bytes(std::span(tensor)));
    std::vector<float> received(static_cast<size_t>(most_bytes) / sizeof(float), NAN);
    collective({.ranks = &own,
                .pieces = pieces_of(bytes, most_bytes),
                .received = std::as_writable_bytes(std::span(received)).data()});
  });
  for (const auto& rank : ranks) outcome.sent_bytes.push_back(rank->sent_bytes());
  return outcome;
}

int64_t all_bytes() {
  return 4 * static_cast<int64_t>(std::accumulate(kTensorSizes.begin(), kTensorSizes.end(), size_t{0}));
}

TEST(Broadcast, GivesAllRanksTheFirstOnesBytes) {
  for (const int32_t size : {1, 2, 3, 5}) {
    for (const int64_t most_bytes : {64, 4096, 1 << 20}) {
      const ChainOutcome outcome = run_chain(broadcast, size, most_bytes);
      for (int32_t rank = 0; rank < size; ++rank) {
        EXPECT_EQ(outcome.ranks[static_cast<size_t>(rank)], terms_of(0)) << rank << " of " << size;
        EXPECT_EQ(outcome.sent_bytes[static_cast<size_t>(rank)], rank == size - 1 ? 0 : all_bytes());
      }
    }
  }
}

// Against sums in double: N - 1 additions of numbers of that magnitude.
TEST(Reduce, AddsUpTheTermsOfAllRanksOnTheFirst) {
  for (const int32_t size : {1, 2, 3, 5}) {
    for (const int64_t most_bytes : {64, 4096, 1 << 20}) {
      const ChainOutcome outcome = run_chain(reduce, size, most_bytes);
      std::vector<Tensors> terms;
      for (int32_t rank = 0; rank < size; ++rank) terms.push_back(terms_of(rank));
      for (size_t tensor = 0; tensor < kTensorSizes.size(); ++tensor) {
        for (size_t i = 0; i < kTensorSizes[tensor]; ++i) {
          double sum = 0, magnitude = 0;
          for (const Tensors& of_rank : terms) {
            sum += of_rank[tensor][i];
            magnitude += std::abs(of_rank[tensor][i]);
          }
          ASSERT_NEAR(outcome.ranks[0][tensor][i], sum, (size - 1) * 0x1p-24 * magnitude)
              << size << " ranks, pieces of " << most_bytes << ", tensor " << tensor << ", element " << i;
        }
      }
      for (int32_t rank = 0; rank < size; ++rank)
        EXPECT_EQ(outcome.sent_bytes[static_cast<size_t>(rank)], rank == 0 ? 0 : all_bytes());
    }
  }
}

// However it is cut.
TEST(Reduce, HasTheSameBitsEachTime) {
  EXPECT_EQ(run_chain(reduce, 4, 64).ranks[0], run_chain(reduce, 4, 1 << 20).ranks[0]);
}

}  // namespace
}  // namespace shoehorn::cpu
