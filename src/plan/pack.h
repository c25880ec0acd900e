// Static memory packing: offsets for intervals whose lifetimes and sizes are known before the program runs.
//
// The problem is dynamic storage allocation (Garey and Johnson SR2, NP-complete): rectangles whose place in
// time is fixed slide along the address axis until none overlap, and the highest end should be as low as
// possible. No packing can lie below the largest sum of sizes alive at one position, so a packing that
// reaches that sum is optimal.
//
// How `pack` works. Every step is deterministic; the same input gives the same offsets on every machine.
//
//  1. Reduce. Sizes become multiples of the alignment. Positions become sections, one for each maximal set of
//     intervals alive together (a start that is followed by an end), so lifetimes are ranges of sections.
//     Where nothing lives across a section's edge the problem falls apart, and the parts are packed by
//     themselves, all from offset 0.
//  2. Construct (pack_greedy.cc), until a packing reaches the lower bound or the target:
//       skyline    take the lowest stretch of the outline of what has been placed, and put on it the best of
//                  the intervals that live within it (longest life; largest; most contended); if there are
//                  none, raise it to its lower neighbour. Exact for nested lifetimes. After Burke, Kendall
//                  and Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem" (2004), and
//                  Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018).
//       by time    first fit and best fit in the order of starts and, from the other side, of ends: an
//                  allocator's view.
//       by order   first fit and best fit in the order of size, area, lifetime and contention.
//  3. Search, while effort is left, alternating between
//       canonical  (pack_search.cc) depth-first search for a packing under a given height in which every
//                  interval rests on others; it is complete. After Moffitt, "MiniMalloc" (ASPLOS 2023), with
//                  per-section bounds, dominance and independent sub-problems once lifetimes part; it
//                  branches on the section with the fewest choices, not in the order of offsets.
//       reorder    (pack_local.cc) first fit by order, where intervals that stick out over the goal move
//                  forward.
//     The heights aimed at are the goal (lower bound or target) and the middle between it and the best so
//     far.
//
// Effort bounds step 3. It is counted in visits of intervals and sections (a few nanoseconds each), never in
// seconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shoehorn {

// A buffer that is alive from position `first` to position `last`, both inclusive.
struct Interval {
  int64_t first = 0;
  int64_t last = 0;
  int64_t size_bytes = 0;
};

struct Packing {
  std::vector<int64_t> offsets;   // per interval, in bytes; multiples of the alignment
  int64_t bytes = 0;              // the largest end of an interval: the size of the arena
  int64_t lower_bound_bytes = 0;  // the largest sum of (rounded) sizes alive at one position; <= bytes
};

// Takes under a second if no packing meets the lower bound. A construction that meets it costs nothing.
inline constexpr int64_t kDefaultPackEffort = 100'000'000;

// Packs `intervals`. Sizes are rounded up to `alignment` (any positive number of bytes); an empty interval
// gets offset 0 and conflicts with nothing. Stops early at the lower bound, or at a packing of at most
// `target_bytes` (0: no target). `effort` >= 0 bounds the search; with 0 only the constructions run. More
// effort never gives a larger packing. Pure and thread-safe. InternalError for an interval with first > last,
// first < 0 or a negative size, and for alignment < 1; UserError if the bytes do not fit in 63 bits.
Packing pack(std::span<const Interval> intervals, int64_t alignment, int64_t target_bytes = 0,
             int64_t effort = kDefaultPackEffort);

}  // namespace shoehorn
