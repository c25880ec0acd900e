#include "ops/ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace shoehorn {
namespace {

// Every element is in one part of one block, and stored where its rank has room for it.
TEST(Ring, PartsCoverTheElements) {
  for (const int64_t chunk : {0, 1, 5, 64}) {
    for (const int64_t ranks : {1, 2, 3, 8}) {
      const Ring ring({ring_segment(7, ranks), ring_segment(1, ranks), ring_segment(100, ranks, 16)}, chunk,
                      ranks);
      std::vector<std::vector<int>> seen = {std::vector<int>(7), std::vector<int>(1), std::vector<int>(100)};
      for (int64_t part = 0; part < ranks; ++part) {
        std::vector<int> stored(static_cast<size_t>(ring.stored_elements()));
        int64_t elements = 0;
        for (int64_t block = 0; block < ring.blocks(); ++block) {
          EXPECT_LE(ring.chunk_elements(block, part), ring.chunk_elements());
          EXPECT_EQ(ring.chunk_elements(block, part), ring.chunk_elements(block, part - ranks));
          elements += ring.chunk_elements(block, part);
          ring.for_each_piece(block, part, [&](size_t segment, const ElementRange& range, int64_t at) {
            for (int64_t i = 0; i < range.size(); ++i) {
              ++seen[segment][static_cast<size_t>(range.begin + i)];
              ++stored[static_cast<size_t>(at + i)];
            }
          });
        }
        EXPECT_EQ(elements, ring.part_elements(part));
        for (const int times : stored) EXPECT_LE(times, 1);
      }
      for (const std::vector<int>& of_segment : seen) {
        for (const int times : of_segment) EXPECT_EQ(times, 1) << chunk << " a block, " << ranks << " ranks";
      }
    }
  }
}

// Parts begin at multiples, so that nothing that shares a scale is cut.
TEST(Ring, CutsAtMultiples) {
  const RingSegment segment = ring_segment(100, 3, 16);
  EXPECT_EQ(segment.piece, 48);
  EXPECT_EQ(part_of(segment, 1), (ElementRange{48, 96}));
  EXPECT_EQ(part_of(segment, 2), (ElementRange{96, 100}));
  EXPECT_EQ(part_of(ring_segment(20, 4, 16), 3).size(), 0);
}

// (N - 1) / N of the elements from each rank to add up, and as many to tell; from all together N - 1 times the elements,
// also where parts differ.
TEST(Ring, SendsWhatTheLiteratureSays) {
  for (const int64_t ranks : {1, 2, 3, 4, 8}) {
    const Ring even({ring_segment(240 * ranks, ranks)}, 24, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(even.reduced_elements(rank), (ranks - 1) * 240);
      EXPECT_EQ(even.gathered_elements(rank), (ranks - 1) * 240);
    }
    for (const int64_t elements : {1, 5, 999}) {
      const Ring uneven({ring_segment(elements, ranks), ring_segment(3, ranks)}, 37, ranks);
      int64_t reduced = 0, gathered = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        reduced += uneven.reduced_elements(rank);
        gathered += uneven.gathered_elements(rank);
      }
      EXPECT_EQ(reduced, (ranks - 1) * (elements + 3)) << elements << " elements, " << ranks << " ranks";
      EXPECT_EQ(gathered, reduced);
    }
  }
}

TEST(Ring, NeedsElementsAndRanks) {
  EXPECT_THROW(Ring({}, 0, 2), InternalError);
  EXPECT_THROW(Ring({{5, 5}}, 0, 0), InternalError);
  EXPECT_THROW(Ring({{5, 2}}, 0, 2), InternalError) << "the last element is in no part";
}

// Groups of ranks in a row, and of those at one place of such groups: every rank is in one of each, at its place of it.
TEST(RingGroups, AreRanksInARowOrAStrideApart) {
  const CollectiveAttributes in_a_row{.ranks = 3, .segments = {}, .groups = 4};
  const CollectiveAttributes across{.ranks = 4, .segments = {}, .stride = 3, .groups = 3};
  for (const CollectiveAttributes& group : {in_a_row, across}) {
    for (int64_t rank = 0; rank < 12; ++rank) {
      for (int64_t place = 0; place < group.ranks; ++place) {
        const int64_t other = rank_at_place(group, rank, place);
        EXPECT_EQ(place_in_group(group, other), place);
        EXPECT_EQ(rank_at_place(group, other, place_in_group(group, rank)), rank);
        EXPECT_TRUE(group.stride == 1 ? other / 3 == rank / 3 : other % 3 == rank % 3)
            << rank << " " << other;
      }
    }
  }
}

}  // namespace
}  // namespace shoehorn
