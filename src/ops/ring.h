// How a ring of N ranks adds up tensors that each of them has, and tells all ranks what each has a part of (Patarasuk and
// Yuan, 2009): the arithmetic, without a byte sent. The kernels that send (exec/cpu/collectives) and the costs of the ops
// follow it.
//
// What goes around is a row of segments, each cut into N parts; part r of all segments is rank r's. To add up, in each of
// N - 1 rounds a rank sends a part to the next rank, receives one from the rank before and adds its own terms to it. Part r
// starts at rank r + 1 and ends at rank r: it is x_{r+1} + x_{r+2} + … + x_r, added in this order. To tell, in N - 1 rounds
// the parts go around as they are. A rank sends (N - 1) / N of the elements for either.
//
//   all_reduce       adds up and tells: every rank has all sums
//   reduce_scatter   adds up: every rank has the sums of its part
//   all_gather       tells
//
// So all three agree on who has which part, and a sum has the same bits whichever of them took it. Parts go around in
// blocks of at most `chunk_elements`, one after the other, which bounds what a rank holds of messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/attributes.h"
#include "graph/op_kind.h"

namespace shoehorn {

// A row of elements cut for so many ranks, at multiples of `multiple`.
RingSegment ring_segment(int64_t elements, int64_t ranks, int64_t multiple = 1);

// The elements that a rank stores of a row of segments: of each a piece.
int64_t stored_elements(const std::vector<RingSegment>& segments);

// Elements [begin, end) of a segment that a rank's part has.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};
ElementRange part_of(const RingSegment& segment, int64_t part);

class Ring {
 public:
  // `chunk_elements` 0: parts go around in one block.
  Ring(std::vector<RingSegment> segments, int64_t chunk_elements, int64_t ranks);

  int64_t ranks() const { return ranks_; }
  const std::vector<RingSegment>& segments() const { return segments_; }
  int64_t blocks() const;
  // The most that goes around at a time: what a buffer holds.
  int64_t chunk_elements() const { return chunk_elements_; }
  // As a rank stores its part, with padding.
  int64_t stored_elements() const { return stored_elements_; }
  // Of a part, which may be any number: it counts around the ring. Without padding.
  int64_t part_elements(int64_t part) const;
  // Of a part, what goes around with a block.
  int64_t chunk_elements(int64_t block, int64_t part) const;

  // Calls function(segment's number, elements of it, where the first of them is stored in the part) for what a block has of
  // a part.
  template <typename Function>
  void for_each_piece(int64_t block, int64_t part, const Function& function) const {
    const int64_t first = block * chunk_elements_;
    const int64_t last = std::min(first + chunk_elements_, stored_elements_);
    int64_t stored = 0;
    for (size_t i = 0; i < segments_.size() && stored < last; stored += segments_[i++].piece) {
      const ElementRange own = part_of(segments_[i], around(part));
      const int64_t from = std::max(first - stored, int64_t{0});
      const int64_t to = std::min(last - stored, own.size());
      if (from < to) function(i, ElementRange{own.begin + from, own.begin + to}, stored + from);
    }
  }

  // What a rank sends to add up, and to tell.
  int64_t reduced_elements(int64_t rank) const { return elements_ - part_elements(rank); }
  int64_t gathered_elements(int64_t rank) const { return elements_ - part_elements(rank + 1); }

 private:
  int64_t around(int64_t part) const { return (part % ranks_ + ranks_) % ranks_; }

  std::vector<RingSegment> segments_;
  int64_t ranks_;
  int64_t elements_ = 0;
  int64_t stored_elements_ = 0;
  int64_t chunk_elements_;
};

// Whether a collective goes along the chain of ranks, from the first to the last or back, and not around.
bool is_chain(OpKind kind);

// The ring of a collective's tensors, end to end.
Ring ring_of(const CollectiveAttributes& attributes);

// Where a rank of the run stands in its group, which is its number in the ring; and the rank that stands at a place of it.
int64_t place_in_group(const CollectiveAttributes& attributes, int64_t rank);
int64_t rank_at_place(const CollectiveAttributes& attributes, int64_t rank, int64_t place);
// The rank of the run to which a rank sends all its messages of a collective; none of the end of a chain, which sends nothing.
std::optional<int64_t> receiver_of(OpKind kind, const CollectiveAttributes& attributes, int64_t rank);

}  // namespace shoehorn
