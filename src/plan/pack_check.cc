#include "plan/pack_check.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace shoehorn {
namespace {

struct Event {
  int64_t position;
  bool starts;
  size_t index;
};

void check_disjoint(std::span<const Interval> intervals, std::span<const int64_t> offsets, size_t lower,
                    size_t upper) {
  const int64_t lower_end = offsets[lower] + intervals[lower].size_bytes;
  CHECK(lower_end <= offsets[upper],
        "[plan] expected live intervals apart, got interval {} (positions [{}, {}], bytes [{}, {})) over "
        "interval {} (positions [{}, {}], bytes [{}, {}))",
        lower, intervals[lower].first, intervals[lower].last, offsets[lower], lower_end, upper,
        intervals[upper].first, intervals[upper].last, offsets[upper],
        offsets[upper] + intervals[upper].size_bytes);
}

}  // namespace

void validate_no_overlap(std::span<const Interval> intervals, std::span<const int64_t> offsets,
                         int64_t alignment, int64_t arena_bytes) {
  CHECK(intervals.size() == offsets.size(), "[plan] expected {} offsets, got {}", intervals.size(),
        offsets.size());
  CHECK(alignment >= 1, "[plan] expected an alignment of at least 1, got {}", alignment);
  std::vector<Event> events;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& interval = intervals[i];
    CHECK(interval.first >= 0 && interval.first <= interval.last && interval.size_bytes >= 0,
          "[plan] expected 0 <= first <= last and a size, got [{}, {}] of {} bytes as interval {}",
          interval.first, interval.last, interval.size_bytes, i);
    CHECK(offsets[i] >= 0 && offsets[i] % alignment == 0,
          "[plan] expected an offset that is a multiple of {}, got {} for interval {}", alignment, offsets[i],
          i);
    CHECK(offsets[i] <= arena_bytes - interval.size_bytes,
          "[plan] expected interval {} within the arena of {} bytes, got bytes [{}, {} + {})", i, arena_bytes,
          offsets[i], offsets[i], interval.size_bytes);
    if (interval.size_bytes == 0) continue;
    events.push_back({interval.first, true, i});
    events.push_back({interval.last, false, i});
  }
  // An end at a position is later than a start there (lifetimes are inclusive): starts sort first.
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.position, !a.starts, a.index) < std::tuple(b.position, !b.starts, b.index);
  });

  std::map<int64_t, size_t> alive;  // by offset
  for (const Event& event : events) {
    const int64_t offset = offsets[event.index];
    if (!event.starts) {
      alive.erase(offset);
      continue;
    }
    const auto above = alive.lower_bound(offset);
    if (above != alive.end()) check_disjoint(intervals, offsets, event.index, above->second);
    if (above != alive.begin()) check_disjoint(intervals, offsets, std::prev(above)->second, event.index);
    alive.emplace_hint(above, offset, event.index);
  }
}

std::vector<int64_t> live_bytes_by_position(std::span<const Interval> intervals, int64_t positions,
                                            int64_t alignment) {
  CHECK(positions >= 0, "[plan] expected at least 0 positions, got {}", positions);
  CHECK(alignment >= 1, "[plan] expected an alignment of at least 1, got {}", alignment);
  // Changes may not fit where sums do: 128 bits hold any number of 63-bit sizes.
  using Wide = __int128;
  std::vector<Wide> change(static_cast<size_t>(positions) + 1, 0);
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& interval = intervals[i];
    CHECK(0 <= interval.first && interval.first <= interval.last && interval.last < positions,
          "[plan] expected interval {} within the {} positions, got [{}, {}]", i, positions, interval.first,
          interval.last);
    CHECK(interval.size_bytes >= 0, "[plan] expected a size of at least 0, got {} of interval {}",
          interval.size_bytes, i);
    const Wide size = (Wide{interval.size_bytes} + alignment - 1) / alignment * alignment;
    change[static_cast<size_t>(interval.first)] += size;
    change[static_cast<size_t>(interval.last) + 1] -= size;
  }
  std::vector<int64_t> live;
  live.reserve(static_cast<size_t>(positions));
  Wide sum = 0;
  for (int64_t position = 0; position < positions; ++position) {
    sum += change[static_cast<size_t>(position)];
    if (sum > Wide{std::numeric_limits<int64_t>::max()}) {
      throw user_error(
          "[plan] expected live bytes below 2^63, got more at position {}; make the program smaller",
          position);
    }
    live.push_back(static_cast<int64_t>(sum));
  }
  return live;
}

}  // namespace shoehorn
