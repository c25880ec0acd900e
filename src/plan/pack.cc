#include "plan/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "plan/pack_instance.h"

namespace shoehorn {
namespace {

using packing::Effort;
using packing::Fit;
using packing::Instance;
using packing::Item;
using packing::Layout;
using packing::SearchResult;

// Above this the constructions and searches whose every round is quadratic are left out.
constexpr int64_t kMaxReorderedItems = 5'000;

// With more items the canonical search is skipped: its stack and its copies of the state grow with depth
// times items.
constexpr int64_t kMaxSearchedItems = 2'000;

// Visits an item granted to each search of the first round; later rounds double it.
constexpr int64_t kFirstSlice = 2'000;

struct Part {
  Instance instance;
  std::vector<size_t> members;  // instance.items[i] is the interval members[i]
};

// The largest of `values` in ranges, by tables of the maxima of 1, 2, 4, … neighbours.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<int64_t> values) {
    tables_.push_back(std::move(values));
    for (size_t width = 1; 2 * width <= tables_[0].size(); width *= 2) {
      const std::vector<int64_t>& half = tables_.back();
      std::vector<int64_t> table(half.size() - width);
      for (size_t i = 0; i < table.size(); ++i) table[i] = std::max(half[i], half[i + width]);
      tables_.push_back(std::move(table));
    }
  }

  int64_t over(size_t begin, size_t end) const {
    size_t level = 0;
    while (size_t{2} << level <= end - begin) ++level;
    return std::max(tables_[level][begin], tables_[level][end - (size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<int64_t>> tables_;
};

int64_t add_bytes(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw user_error("[pack] expected live bytes below 2^63, got {} + {}; make the program smaller", a, b);
  }
  return sum;
}

int64_t multiply_bytes(int64_t units, int64_t alignment) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(units, alignment, &bytes)) {
    throw user_error("[pack] expected bytes below 2^63, got {} units of {} bytes; make the program smaller",
                     units, alignment);
  }
  return bytes;
}

void check_intervals(std::span<const Interval> intervals, int64_t alignment) {
  CHECK(alignment >= 1, "[pack] expected an alignment of at least 1, got {}", alignment);
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& interval = intervals[i];
    CHECK(interval.first >= 0 && interval.first <= interval.last,
          "[pack] expected 0 <= first <= last, got [{}, {}] of interval {}", interval.first, interval.last,
          i);
    CHECK(interval.size_bytes >= 0, "[pack] expected a size of at least 0, got {} of interval {}",
          interval.size_bytes, i);
  }
}

int64_t rounded_units(int64_t size_bytes, int64_t alignment) {
  return size_bytes / alignment + (size_bytes % alignment != 0);
}

// One part: its members, sorted by first, live in [first, last] and cannot be separated.
Instance make_instance(std::span<const Interval> intervals, std::span<const size_t> members,
                       int64_t alignment) {
  // Sections begin at the starts that an end follows before the next start.
  std::vector<int64_t> lasts;
  lasts.reserve(members.size());
  for (const size_t member : members) lasts.push_back(intervals[member].last);
  std::sort(lasts.begin(), lasts.end());
  std::vector<int64_t> section_first;  // the earliest position of a section's stretch
  size_t ended = 0;
  bool ended_since_start = true;
  for (const size_t member : members) {
    for (; ended < lasts.size() && lasts[ended] < intervals[member].first; ++ended) ended_since_start = true;
    if (ended_since_start) section_first.push_back(intervals[member].first);
    ended_since_start = false;
  }

  Instance instance;
  instance.load.assign(section_first.size(), 0);
  std::vector<int64_t> change(section_first.size() + 1, 0);
  int64_t total = 0;
  for (const size_t member : members) {
    const Interval& interval = intervals[member];
    // A section lasts until the first start of the next one; everything in it counts as alive together.
    const auto begin = std::upper_bound(section_first.begin(), section_first.end(), interval.first) - 1;
    const auto end = std::upper_bound(section_first.begin(), section_first.end(), interval.last);
    const Item item{static_cast<int32_t>(begin - section_first.begin()),
                    static_cast<int32_t>(end - section_first.begin()),
                    rounded_units(interval.size_bytes, alignment)};
    total = add_bytes(total, item.size);
    change[static_cast<size_t>(item.begin)] += item.size;
    change[static_cast<size_t>(item.end)] -= item.size;
    instance.items.push_back(item);
  }
  std::partial_sum(change.begin(), change.end() - 1, instance.load.begin());
  instance.lower_bound = *std::max_element(instance.load.begin(), instance.load.end());
  const RangeMaximum load(instance.load);
  for (const Item& item : instance.items) {
    instance.contention.push_back(load.over(static_cast<size_t>(item.begin), static_cast<size_t>(item.end)));
  }
  return instance;
}

std::vector<Part> split_into_parts(std::span<const Interval> intervals, int64_t alignment) {
  std::vector<size_t> by_first;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].size_bytes > 0) by_first.push_back(i);
  }
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](size_t a, size_t b) { return intervals[a].first < intervals[b].first; });
  std::vector<Part> parts;
  int64_t last = -1;
  for (const size_t index : by_first) {
    if (parts.empty() || intervals[index].first > last) parts.emplace_back();
    parts.back().members.push_back(index);
    last = std::max(last, intervals[index].last);
  }
  for (Part& part : parts) part.instance = make_instance(intervals, part.members, alignment);
  return parts;
}

// Packs one part: construct, then search, until the layout is at most `goal`.
class Packer {
 public:
  Packer(const Instance& instance, int64_t goal, Effort& effort)
      : instance_(instance), goal_(goal), effort_(effort) {}

  Layout run() {
    construct();
    if (instance_.item_count() <= kMaxReorderedItems) search();
    return std::move(best_);
  }

 private:
  bool is_done() const { return best_.height <= goal_; }

  void offer(Layout&& layout) {
    if (best_.offsets.empty() || layout.height < best_.height) best_ = std::move(layout);
  }

  void construct() {
    for (const packing::Criterion criterion : packing::kCriteria) {
      orders_.push_back(packing::order_by(instance_, criterion));
      offer(packing::place_on_skyline(instance_, orders_.back()));
      if (is_done()) return;
    }
    for (const bool reversed : {true, false}) {
      for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
        offer(packing::place_by_time(instance_, reversed, fit));
        if (is_done()) return;
      }
    }
  }

  // Rounds of growing effort, so that what is easy for one method is found before much effort goes into
  // another. The canonical search aims at the goal and, every other round, at the middle between goal and
  // best.
  void search() {
    for (const std::vector<int32_t>& order : orders_) {
      for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
        if (is_done() || effort_.exhausted()) return;
        offer(packing::place_by_order(instance_, order, fit, effort_));
      }
    }
    for (int64_t slice = kFirstSlice * int64_t{instance_.item_count()}; !is_done() && !effort_.exhausted();
         slice *= 4) {
      for (const bool halfway : {false, true}) {
        if (instance_.item_count() <= kMaxSearchedItems && search_orders(slice, halfway)) return;
      }
      spend_at_most(slice,
                    [&](Effort& share) { packing::improve_by_reordering(instance_, goal_, share, best_); });
    }
  }

  // One slice of effort for each order and temper; true when nothing is left to win.
  bool search_orders(int64_t slice, bool halfway) {
    for (const packing::SectionRule rule :
         {packing::SectionRule::kFewestChoices, packing::SectionRule::kLowest}) {
      for (const std::vector<int32_t>& order : orders_) {
        if (is_done() || effort_.exhausted() || impossible_ + 1 >= best_.height) return true;
        const int64_t aim = std::max(goal_, impossible_ + 1);
        const int64_t capacity = halfway ? aim + (best_.height - aim) / 2 : aim;
        Layout layout;
        SearchResult result = SearchResult::kGaveUp;
        spend_at_most(slice, [&](Effort& share) {
          result = packing::search_canonical(instance_, order, rule, capacity, share, layout);
        });
        if (result == SearchResult::kFound) offer(std::move(layout));
        if (result == SearchResult::kImpossible) impossible_ = capacity;
      }
    }
    return false;
  }

  template <typename Step>
  void spend_at_most(int64_t slice, Step&& step) {
    Effort share(std::min(slice, effort_.left()));
    const int64_t granted = share.left();
    step(share);
    effort_.spend(granted - share.left());
  }

  const Instance& instance_;
  const int64_t goal_;
  Effort& effort_;
  int64_t impossible_ = 0;  // no packing is as low as this
  std::vector<std::vector<int32_t>> orders_;
  Layout best_;
};

}  // namespace

Packing pack(std::span<const Interval> intervals, int64_t alignment, int64_t target_bytes, int64_t effort) {
  check_intervals(intervals, alignment);
  CHECK(effort >= 0, "[pack] expected an effort of at least 0, got {}", effort);
  CHECK(target_bytes >= 0, "[pack] expected a target of at least 0 bytes, got {}", target_bytes);
  std::vector<Part> parts = split_into_parts(intervals, alignment);
  int64_t lower_bound = 0;
  for (const Part& part : parts) lower_bound = std::max(lower_bound, part.instance.lower_bound);

  Packing result;
  result.offsets.assign(intervals.size(), 0);
  result.lower_bound_bytes = multiply_bytes(lower_bound, alignment);
  Effort left(effort);
  int64_t height = 0;
  // The most loaded part first: what it needs, the others may take.
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.instance.lower_bound > b.instance.lower_bound;
  });
  for (const Part& part : parts) {
    const int64_t goal = std::max({lower_bound, target_bytes / alignment, height});
    const Layout layout = Packer(part.instance, goal, left).run();
    height = std::max(height, layout.height);
    for (size_t i = 0; i < part.members.size(); ++i) {
      result.offsets[part.members[i]] = multiply_bytes(layout.offsets[i], alignment);
    }
  }
  result.bytes = multiply_bytes(height, alignment);
  return result;
}

}  // namespace shoehorn
