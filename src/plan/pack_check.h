// What is asked of every plan: that no two live intervals share a byte, and how many bytes live where.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/pack.h"

namespace shoehorn {

// Checks a packing. InternalError naming the pair if two intervals that are alive at the same time share a
// byte, and naming the interval if an offset is negative or no multiple of `alignment`, or its end exceeds
// `arena_bytes`. Sizes are not rounded. O(n log n): a sweep over time keeps the live intervals sorted by
// offset, where a new one can overlap only its neighbours.
void validate_no_overlap(std::span<const Interval> intervals, std::span<const int64_t> offsets,
                         int64_t alignment, int64_t arena_bytes);

// Live (rounded) bytes at each position 0 … positions - 1. InternalError for an interval outside of them,
// UserError if a sum does not fit in 63 bits. O(n + positions).
std::vector<int64_t> live_bytes_by_position(std::span<const Interval> intervals, int64_t positions,
                                            int64_t alignment = 1);

}  // namespace shoehorn
