// Constructions: a packing in one go.
#include "plan/pack_instance.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace shoehorn::packing {
namespace {

// Free ranges below the frontier, sorted by offset, and the frontier: all above it is free.
class FreeList {
 public:
  int64_t take(int64_t size, Fit fit) {
    size_t chosen = gaps_.size();
    for (size_t i = 0; i < gaps_.size(); ++i) {
      if (gaps_[i].size < size) continue;
      if (chosen == gaps_.size() || gaps_[i].size < gaps_[chosen].size) chosen = i;
      if (fit == Fit::kFirst || gaps_[i].size == size) break;
    }
    if (chosen == gaps_.size()) return grow(size);
    Gap& gap = gaps_[chosen];
    const int64_t offset = gap.offset;
    gap.offset += size;
    gap.size -= size;
    if (gap.size == 0) gaps_.erase(gaps_.begin() + static_cast<ptrdiff_t>(chosen));
    return offset;
  }

  void give(int64_t offset, int64_t size) {
    auto next = std::lower_bound(gaps_.begin(), gaps_.end(), offset,
                                 [](const Gap& gap, int64_t at) { return gap.offset < at; });
    const bool joins_next = next != gaps_.end() && next->offset == offset + size;
    const bool joins_previous =
        next != gaps_.begin() && std::prev(next)->offset + std::prev(next)->size == offset;
    if (joins_previous) {
      auto previous = std::prev(next);
      previous->size += size + (joins_next ? next->size : 0);
      if (joins_next) gaps_.erase(next);
    } else if (joins_next) {
      next->offset = offset;
      next->size += size;
    } else {
      gaps_.insert(next, {offset, size});
    }
    if (!gaps_.empty() && gaps_.back().offset + gaps_.back().size == frontier_) {
      frontier_ = gaps_.back().offset;
      gaps_.pop_back();
    }
  }

 private:
  struct Gap {
    int64_t offset;
    int64_t size;
  };

  int64_t grow(int64_t size) {
    const int64_t offset = frontier_;
    frontier_ += size;
    return offset;
  }

  std::vector<Gap> gaps_;
  int64_t frontier_ = 0;
};

// For items sorted by begin: finds the first of an order that lives within a range of sections. A tree over
// the items keeps the earliest end and the best rank of each subtree, which prune the descent.
class ContainedItems {
 public:
  ContainedItems(const Instance& instance, std::span<const int32_t> order)
      : first_at_(instance.load.size() + 1, 0), order_(order) {
    const auto count = static_cast<size_t>(instance.item_count());
    while (leaves_ < count) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
    for (const Item& item : instance.items) ++first_at_[static_cast<size_t>(item.begin) + 1];
    std::partial_sum(first_at_.begin(), first_at_.end(), first_at_.begin());
    for (size_t i = 0; i < count; ++i) nodes_[leaves_ + i].end = instance.items[i].end;
    for (size_t rank = 0; rank < count; ++rank) {
      nodes_[leaves_ + static_cast<size_t>(order[rank])].rank = static_cast<int32_t>(rank);
    }
    for (size_t node = leaves_; --node > 0;) pull(node);
  }

  // The item, or -1. It is not removed.
  int32_t best_within(int32_t begin, int32_t end) const {
    int32_t best = kNone;
    descend(1, 0, leaves_, first_at_[static_cast<size_t>(begin)], first_at_[static_cast<size_t>(end)], end,
            best);
    return best == kNone ? -1 : order_[static_cast<size_t>(best)];
  }

  void remove(int32_t item) {
    size_t node = leaves_ + static_cast<size_t>(item);
    nodes_[node] = Node{};
    while ((node /= 2) > 0) pull(node);
  }

 private:
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
  struct Node {
    int32_t end = kNone;   // the earliest
    int32_t rank = kNone;  // the best
  };

  void pull(size_t node) {
    const Node& left = nodes_[2 * node];
    const Node& right = nodes_[2 * node + 1];
    nodes_[node] = {std::min(left.end, right.end), std::min(left.rank, right.rank)};
  }

  void descend(size_t node, size_t low, size_t high, size_t from, size_t to, int32_t end,
               int32_t& best) const {
    if (to <= low || high <= from || nodes_[node].end > end || nodes_[node].rank >= best) return;
    if (high - low == 1) {
      best = nodes_[node].rank;
      return;
    }
    const size_t middle = (low + high) / 2;
    const bool right_first = nodes_[2 * node + 1].rank < nodes_[2 * node].rank;
    if (right_first) descend(2 * node + 1, middle, high, from, to, end, best);
    descend(2 * node, low, middle, from, to, end, best);
    if (!right_first) descend(2 * node + 1, middle, high, from, to, end, best);
  }

  std::vector<size_t> first_at_;
  std::span<const int32_t> order_;
  size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

// The outline of what has been placed: segments of sections of one height, addressed by their first section.
class Skyline {
 public:
  struct Segment {
    int32_t begin;
    int32_t end;
    int64_t height;
  };

  explicit Skyline(int32_t sections)
      : end_(static_cast<size_t>(sections), 0), previous_(end_.size(), -1), height_(end_.size(), -1) {
    insert(0, sections, 0, -1);
  }

  Segment lowest() {
    while (!is_current(queue_.top())) queue_.pop();
    const int32_t begin = queue_.top().second;
    return {begin, end_[at(begin)], height_[at(begin)]};
  }

  // Lifts the segment to its lower neighbour and joins them. The segment must have a neighbour.
  void raise(const Segment& segment) {
    const int32_t left = previous_[at(segment.begin)];
    const bool has_right = segment.end < static_cast<int32_t>(end_.size());
    const int64_t left_height = left >= 0 ? height_[at(left)] : std::numeric_limits<int64_t>::max();
    const int64_t right_height = has_right ? height_[at(segment.end)] : std::numeric_limits<int64_t>::max();
    replace(segment.begin, segment.end, std::min(left_height, right_height));
  }

  // Puts an item of sections [begin, end) on the segment that contains them.
  void place(const Segment& segment, int32_t begin, int32_t end, int64_t size) {
    const int32_t left = previous_[at(segment.begin)];
    height_[at(segment.begin)] = -1;
    int32_t before = left;
    if (segment.begin < begin) {
      insert(segment.begin, begin, segment.height, before);
      before = segment.begin;
    }
    insert(begin, end, segment.height + size, before);
    if (end < segment.end) {
      insert(end, segment.end, segment.height, begin);
    }
    replace(begin, end, segment.height + size);
  }

 private:
  using Entry = std::pair<int64_t, int32_t>;

  static size_t at(int32_t section) { return static_cast<size_t>(section); }
  bool is_current(const Entry& entry) const { return height_[at(entry.second)] == entry.first; }

  void insert(int32_t begin, int32_t end, int64_t height, int32_t before) {
    end_[at(begin)] = end;
    height_[at(begin)] = height;
    previous_[at(begin)] = before;
    if (at(end) < end_.size()) previous_[at(end)] = begin;
    queue_.emplace(height, begin);
  }

  // Gives the segment a height and joins it with neighbours that have the same.
  void replace(int32_t begin, int32_t end, int64_t height) {
    const int32_t left = previous_[at(begin)];
    height_[at(begin)] = -1;
    if (at(end) < end_.size() && height_[at(end)] == height) {
      height_[at(end)] = -1;
      end = end_[at(end)];
    }
    if (left >= 0 && height_[at(left)] == height) {
      begin = left;
      height_[at(begin)] = -1;
    }
    insert(begin, end, height, previous_[at(begin)]);
  }

  std::vector<int32_t> end_;
  std::vector<int32_t> previous_;
  std::vector<int64_t> height_;  // -1: no segment begins here
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::vector<int32_t> order_by(const Instance& instance, Criterion criterion) {
  struct Key {
    double major, middle, minor;
  };
  std::vector<Key> keys;
  keys.reserve(instance.items.size());
  for (size_t i = 0; i < instance.items.size(); ++i) {
    const Item& item = instance.items[i];
    const double size = static_cast<double>(item.size);
    const double life = item.end - item.begin;
    const double contention = static_cast<double>(instance.contention[i]);
    switch (criterion) {
      case Criterion::kLifetime:
        keys.push_back({life, size, 0});
        break;
      case Criterion::kSize:
        keys.push_back({size, life, 0});
        break;
      case Criterion::kArea:
        keys.push_back({size * life, size, 0});
        break;
      case Criterion::kContention:
        keys.push_back({contention, size, life});
        break;
      case Criterion::kContentionByLifetime:
        keys.push_back({contention, life, size});
        break;
      case Criterion::kContentionByArea:
        keys.push_back({contention, size * life, size});
        break;
    }
  }
  std::vector<int32_t> order(instance.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const Key& left = keys[static_cast<size_t>(a)];
    const Key& right = keys[static_cast<size_t>(b)];
    return std::tie(left.major, left.middle, left.minor) > std::tie(right.major, right.middle, right.minor);
  });
  return order;
}

Layout place_by_time(const Instance& instance, bool reversed, Fit fit) {
  struct Event {
    int32_t section;
    bool starts;
    int32_t item;
  };
  std::vector<Event> events;
  events.reserve(2 * instance.items.size());
  for (int32_t i = 0; i < instance.item_count(); ++i) {
    const Item& item = instance.items[static_cast<size_t>(i)];
    events.push_back({reversed ? -item.end : item.begin, true, i});
    events.push_back({reversed ? -item.begin : item.end, false, i});
  }
  // At one section: ends first, then starts, the largest first.
  std::stable_sort(events.begin(), events.end(), [&](const Event& a, const Event& b) {
    if (a.section != b.section) return a.section < b.section;
    if (a.starts != b.starts) return !a.starts;
    return instance.items[static_cast<size_t>(a.item)].size >
           instance.items[static_cast<size_t>(b.item)].size;
  });

  Layout layout{std::vector<int64_t>(instance.items.size(), 0), 0};
  FreeList free_list;
  for (const Event& event : events) {
    const int64_t size = instance.items[static_cast<size_t>(event.item)].size;
    int64_t& offset = layout.offsets[static_cast<size_t>(event.item)];
    if (event.starts) {
      offset = free_list.take(size, fit);
      layout.height = std::max(layout.height, offset + size);
    } else {
      free_list.give(offset, size);
    }
  }
  return layout;
}

Layout place_on_skyline(const Instance& instance, std::span<const int32_t> order) {
  Layout layout{std::vector<int64_t>(instance.items.size(), 0), 0};
  ContainedItems unplaced(instance, order);
  Skyline skyline(instance.section_count());
  for (int32_t left = instance.item_count(); left > 0;) {
    const Skyline::Segment segment = skyline.lowest();
    const int32_t chosen = unplaced.best_within(segment.begin, segment.end);
    if (chosen < 0) {
      skyline.raise(segment);
      continue;
    }
    const Item& item = instance.items[static_cast<size_t>(chosen)];
    unplaced.remove(chosen);
    skyline.place(segment, item.begin, item.end, item.size);
    layout.offsets[static_cast<size_t>(chosen)] = segment.height;
    layout.height = std::max(layout.height, segment.height + item.size);
    --left;
  }
  return layout;
}

Layout place_by_order(const Instance& instance, std::span<const int32_t> order, Fit fit, Effort& effort) {
  struct Placed {
    int32_t begin, end;
    int64_t offset, top;
  };
  Layout layout{std::vector<int64_t>(instance.items.size(), 0), 0};
  std::vector<Placed> placed;  // sorted by offset
  placed.reserve(order.size());
  for (const int32_t index : order) {
    const Item& item = instance.items[static_cast<size_t>(index)];
    int64_t floor = 0;  // everything below is taken or too small
    int64_t chosen = -1;
    int64_t chosen_gap = std::numeric_limits<int64_t>::max();
    size_t visited = 0;
    for (; visited < placed.size(); ++visited) {
      const Placed& other = placed[visited];
      if (other.begin >= item.end || item.begin >= other.end) continue;
      const int64_t gap = other.offset - floor;
      if (gap >= item.size && gap < chosen_gap) {
        chosen = floor;
        chosen_gap = gap;
        if (fit == Fit::kFirst) break;
      }
      floor = std::max(floor, other.top);
    }
    effort.spend(static_cast<int64_t>(visited) + 1);
    const int64_t offset = chosen >= 0 ? chosen : floor;
    layout.offsets[static_cast<size_t>(index)] = offset;
    layout.height = std::max(layout.height, offset + item.size);
    const auto where = std::upper_bound(placed.begin(), placed.end(), offset,
                                        [](int64_t at, const Placed& other) { return at < other.offset; });
    placed.insert(where, {item.begin, item.end, offset, offset + item.size});
  }
  return layout;
}

}  // namespace shoehorn::packing
