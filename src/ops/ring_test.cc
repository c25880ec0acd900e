#include "ops/ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace shoehorn {
namespace {

// Every element is in one chunk of one block, whatever the sizes.
TEST(Ring, ChunksCoverTheElements) {
  for (const int64_t elements : {1, 2, 7, 64, 1000}) {
    for (const int64_t block : {0, 1, 5, 64, 2000}) {
      for (const int64_t ranks : {1, 2, 3, 8}) {
        const Ring ring(elements, block, ranks);
        int64_t next = 0;
        for (int64_t b = 0; b < ring.blocks(); ++b) {
          for (int64_t c = 0; c < ranks; ++c) {
            const ElementRange range = ring.chunk(b, c);
            EXPECT_EQ(range.begin, next);
            EXPECT_LE(range.size(), ring.chunk_elements());
            EXPECT_EQ(range, ring.chunk(b, c - ranks)) << "chunks count around the ring";
            next = range.end;
          }
        }
        EXPECT_EQ(next, elements) << block << " a block, " << ranks << " ranks";
      }
    }
  }
}

// 2 (N - 1) / N of the elements from each rank; from all together 2 (N - 1) times the elements, also where chunks differ.
TEST(Ring, SendsWhatTheLiteratureSays) {
  for (const int64_t ranks : {1, 2, 3, 4, 8}) {
    const Ring even(240 * ranks, 24 * ranks, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(even.sent_elements(rank), 2 * (ranks - 1) * 240) << ranks;
    for (const int64_t elements : {1, 5, 999}) {
      const Ring uneven(elements, 37, ranks);
      int64_t sent = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) sent += uneven.sent_elements(rank);
      EXPECT_EQ(sent, 2 * (ranks - 1) * elements) << elements << " elements, " << ranks << " ranks";
    }
  }
}

TEST(Ring, NeedsElementsAndRanks) {
  EXPECT_THROW(Ring(0, 0, 2), InternalError);
  EXPECT_THROW(Ring(5, 0, 0), InternalError);
}

}  // namespace
}  // namespace shoehorn
