#include "exec/cpu/collectives/all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ops/ring.h"
#include "ranks/thread_ranks_testing.h"

namespace shoehorn::cpu {
namespace {

using Tensors = std::vector<std::vector<float>>;

Tensors terms_of(int32_t rank, const std::vector<int64_t>& sizes) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 7);
  std::normal_distribution<float> normal;
  Tensors tensors;
  for (const int64_t size : sizes) {
    std::vector<float>& tensor = tensors.emplace_back(static_cast<size_t>(size));
    for (float& x : tensor) x = normal(random);
  }
  return tensors;
}

// What each rank has after an all_reduce, and the bytes that it sent.
struct Reduced {
  std::vector<Tensors> sums;
  std::vector<int64_t> sent_bytes;
};

Reduced reduce(int32_t size, const std::vector<int64_t>& sizes, int64_t block_elements) {
  const auto ranks = testing::thread_ranks(size);
  Reduced reduced{std::vector<Tensors>(ranks.size()), {}};
  int64_t elements = 0;
  for (const int64_t one : sizes) elements += one;
  const Ring ring(elements, block_elements, size);
  testing::run_ranks(ranks, [&](Communicator& own) {
    Tensors& tensors = reduced.sums[static_cast<size_t>(own.rank())];
    tensors = terms_of(own.rank(), sizes);
    std::vector<float> sent(static_cast<size_t>(ring.chunk_elements()), NAN), received = sent;
    AllReduce call{.ranks = &own,
                   .tensors = {},
                   .block_elements = block_elements,
                   .sent = sent.data(),
                   .received = received.data()};
    for (std::vector<float>& tensor : tensors) call.tensors.push_back({tensor.data(), std::ssize(tensor)});
    all_reduce(call);
  });
  for (const auto& rank : ranks) reduced.sent_bytes.push_back(rank->sent_bytes());
  return reduced;
}

const std::vector<std::vector<int64_t>> kSizes = {{1}, {3, 1, 2}, {1000}, {17, 5000, 1, 1, 333, 70000}};

// Against sums in double: N - 1 additions of numbers of that magnitude.
TEST(AllReduce, AddsUpTheTermsOfAllRanks) {
  for (const int32_t size : {1, 2, 3, 5}) {
    for (const std::vector<int64_t>& sizes : kSizes) {
      for (const int64_t block : {int64_t{0}, int64_t{137}, int64_t{4096}}) {
        if (block == 137 && sizes.size() > 4) continue;  // hundreds of blocks
        const Reduced reduced = reduce(size, sizes, block);
        std::vector<Tensors> terms;
        for (int32_t rank = 0; rank < size; ++rank) terms.push_back(terms_of(rank, sizes));
        for (size_t tensor = 0; tensor < sizes.size(); ++tensor) {
          for (size_t i = 0; i < terms[0][tensor].size(); ++i) {
            double sum = 0, magnitude = 0;
            for (const Tensors& of_rank : terms) {
              sum += of_rank[tensor][i];
              magnitude += std::abs(of_rank[tensor][i]);
            }
            ASSERT_NEAR(reduced.sums[0][tensor][i], sum, (size - 1) * 0x1p-24 * magnitude)
                << size << " ranks, block " << block << ", tensor " << tensor << ", element " << i;
          }
        }
      }
    }
  }
}

// The order of the sums is the ring's: the same on all ranks, and each time.
TEST(AllReduce, GivesAllRanksTheSameBitsEachTime) {
  const Reduced first = reduce(4, kSizes.back(), 1000);
  const Reduced again = reduce(4, kSizes.back(), 1000);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (size_t tensor = 0; tensor < first.sums[0].size(); ++tensor) {
      const size_t bytes = first.sums[0][tensor].size() * sizeof(float);
      EXPECT_EQ(std::memcmp(first.sums[0][tensor].data(), first.sums[rank][tensor].data(), bytes), 0) << rank;
      EXPECT_EQ(std::memcmp(first.sums[0][tensor].data(), again.sums[rank][tensor].data(), bytes), 0) << rank;
    }
  }
}

TEST(AllReduce, SendsTheBytesOfTheRing) {
  for (const int64_t block : {0, 1000}) {
    const Reduced reduced = reduce(3, {17, 5000, 333}, block);
    const Ring ring(5350, block, 3);
    for (int32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(reduced.sent_bytes[static_cast<size_t>(rank)],
                ring.sent_elements(rank) * static_cast<int64_t>(sizeof(float)));
    }
  }
}

}  // namespace
}  // namespace shoehorn::cpu
