#include "exec/cpu/collectives/ring_collectives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

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

std::vector<RingSegment> segments_of(const std::vector<int64_t>& sizes, int64_t ranks, int64_t multiple = 1) {
  std::vector<RingSegment> segments;
  for (const int64_t size : sizes) segments.push_back(ring_segment(size, ranks, multiple));
  return segments;
}

// What each rank has of a tensor: all of it, and its part.
struct RankTensors {
  Tensors wholes, parts;
};

// What each rank has behind a collective, and the bytes that it sent.
struct Outcome {
  std::vector<RankTensors> ranks;
  std::vector<int64_t> sent_bytes;
};

// `parts`: what ranks have of them before, by rank; else NaN.
Outcome run(void (*collective)(const RingCall&), const std::vector<RingSegment>& segments, int32_t size,
            int64_t chunk, const std::vector<RankTensors>& before = {}) {
  const auto ranks = shoehorn::test_support::thread_ranks(size);
  Outcome outcome{std::vector<RankTensors>(ranks.size()), {}};
  std::vector<int64_t> sizes;
  for (const RingSegment& segment : segments) sizes.push_back(segment.elements);
  shoehorn::test_support::run_ranks(ranks, [&](Communicator& own) {
    const auto rank = static_cast<size_t>(own.rank());
    RankTensors& tensors = outcome.ranks[rank];
    if (before.empty()) {
      tensors.wholes = terms_of(own.rank(), sizes);
      for (const RingSegment& segment : segments)
        tensors.parts.emplace_back(static_cast<size_t>(segment.piece), NAN);
    } else {
      tensors.parts = before[rank].parts;
      for (const RingSegment& segment : segments)
        tensors.wholes.emplace_back(static_cast<size_t>(segment.elements), NAN);
    }
    const Ring ring(segments, chunk, size);
    std::vector<float> sent(static_cast<size_t>(ring.chunk_elements()), NAN), received = sent;
    RingCall call{.ranks = &own,
                  .at = place_of(own),
                  .ring = ring,
                  .segments = {},
                  .sent = std::as_writable_bytes(std::span(sent)).data(),
                  .received = std::as_writable_bytes(std::span(received)).data()};
    for (size_t i = 0; i < segments.size(); ++i)
      call.segments.push_back({std::as_writable_bytes(std::span(tensors.wholes[i])).data(),
                               std::as_writable_bytes(std::span(tensors.parts[i])).data()});
    collective(call);
  });
  for (const auto& rank : ranks) outcome.sent_bytes.push_back(rank->sent_bytes());
  return outcome;
}

bool have_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const std::vector<std::vector<int64_t>> kRingSizes = {{1}, {3, 1, 2}, {1000}, {17, 5000, 1, 1, 333, 70000}};

// Against sums in double: N - 1 additions of numbers of that magnitude.
TEST(AllReduce, AddsUpTheTermsOfAllRanks) {
  for (const int32_t size : {1, 2, 3, 5}) {
    for (const std::vector<int64_t>& sizes : kRingSizes) {
      for (const int64_t chunk : {int64_t{0}, int64_t{37}, int64_t{1024}}) {
        if (chunk == 37 && sizes.size() > 4) continue;  // hundreds of blocks
        const Outcome reduced = run(all_reduce, segments_of(sizes, size), size, chunk);
        std::vector<Tensors> terms;
        for (int32_t rank = 0; rank < size; ++rank) terms.push_back(terms_of(rank, sizes));
        for (size_t tensor = 0; tensor < sizes.size(); ++tensor) {
          for (size_t i = 0; i < terms[0][tensor].size(); ++i) {
            double sum = 0, magnitude = 0;
            for (const Tensors& of_rank : terms) {
              sum += of_rank[tensor][i];
              magnitude += std::abs(of_rank[tensor][i]);
            }
            ASSERT_NEAR(reduced.ranks[0].wholes[tensor][i], sum, (size - 1) * 0x1p-24 * magnitude)
                << size << " ranks, chunk " << chunk << ", tensor " << tensor << ", element " << i;
          }
        }
      }
    }
  }
}

// The order of the sums is the ring's: the same on all ranks, each time, and however parts are cut into blocks.
TEST(AllReduce, GivesAllRanksTheSameBitsEachTime) {
  const std::vector<RingSegment> segments = segments_of(kRingSizes.back(), 4);
  const Outcome first = run(all_reduce, segments, 4, 250);
  const Outcome again = run(all_reduce, segments, 4, 0);
  for (const RankTensors& rank : first.ranks) {
    for (size_t tensor = 0; tensor < rank.wholes.size(); ++tensor) {
      EXPECT_TRUE(have_same_bits(rank.wholes[tensor], first.ranks[0].wholes[tensor]));
      EXPECT_TRUE(have_same_bits(rank.wholes[tensor], again.ranks[0].wholes[tensor]));
    }
  }
}

// A part of the sums is bit for bit what an all_reduce has there, zeros follow it, and a rank's own terms stay.
TEST(ReduceScatter, HasTheBitsOfAnAllReduce) {
  for (const int32_t size : {1, 2, 3, 5}) {
    for (const std::vector<int64_t>& sizes : kRingSizes) {
      for (const int64_t multiple : {1, 16}) {
        const std::vector<RingSegment> segments = segments_of(sizes, size, multiple);
        const Outcome reduced = run(all_reduce, segments, size, 4096);
        const Outcome scattered = run(reduce_scatter, segments, size, 4096);
        for (int32_t rank = 0; rank < size; ++rank) {
          const RankTensors& own = scattered.ranks[static_cast<size_t>(rank)];
          for (size_t tensor = 0; tensor < sizes.size(); ++tensor) {
            const ElementRange range = part_of(segments[tensor], rank);
            std::vector<float> expected(reduced.ranks[0].wholes[tensor].begin() + range.begin,
                                        reduced.ranks[0].wholes[tensor].begin() + range.end);
            expected.resize(static_cast<size_t>(segments[tensor].piece));
            EXPECT_TRUE(have_same_bits(own.parts[tensor], expected))
                << "rank " << rank << " of " << size << ", tensor " << tensor;
          }
          EXPECT_EQ(own.wholes, terms_of(rank, sizes));
        }
      }
    }
  }
}

TEST(AllGather, TellsEveryRankAllParts) {
  for (const int32_t size : {1, 2, 3, 5}) {
    for (const int64_t chunk : {0, 999}) {
      const std::vector<RingSegment> segments = segments_of(kRingSizes.back(), size, 16);
      const Outcome reduced = run(all_reduce, segments, size, 0);
      const Outcome gathered =
          run(all_gather, segments, size, chunk, run(reduce_scatter, segments, size, 0).ranks);
      for (const RankTensors& rank : gathered.ranks) {
        for (size_t tensor = 0; tensor < segments.size(); ++tensor)
          EXPECT_TRUE(have_same_bits(rank.wholes[tensor], reduced.ranks[0].wholes[tensor]))
              << size << " ranks, tensor " << tensor;
      }
    }
  }
}

TEST(RingCollectives, SendTheBytesOfTheRing) {
  const std::vector<RingSegment> segments = segments_of({17, 5000, 333}, 3);
  const Ring ring(segments, 0, 3);
  for (const int64_t chunk : {0, 300}) {
    const Outcome reduced = run(all_reduce, segments, 3, chunk);
    const Outcome scattered = run(reduce_scatter, segments, 3, chunk);
    const Outcome gathered = run(all_gather, segments, 3, chunk);
    for (int32_t rank = 0; rank < 3; ++rank) {
      const auto at = static_cast<size_t>(rank);
      EXPECT_EQ(scattered.sent_bytes[at], ring.reduced_elements(rank) * 4);
      EXPECT_EQ(gathered.sent_bytes[at], ring.gathered_elements(rank) * 4);
      EXPECT_EQ(reduced.sent_bytes[at], scattered.sent_bytes[at] + gathered.sent_bytes[at]);
    }
  }
}

}  // namespace
}  // namespace shoehorn::cpu
