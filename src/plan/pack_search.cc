// Complete search for a packing under a given height.
//
// Of all packings within the capacity, consider one with the least sum of offsets. Every interval in it rests
// on the ground or on another one; otherwise it could drop. So, from bottom to top, in each section some
// interval lies directly on what is decided, or the section's height was set too low and can be raised. The
// state is a height for each section, below which nothing can be placed any more, and a floor for each
// unplaced interval: the greatest height of its sections. At a node of the search:
//
//   infer    a section's height rises to the least floor of its intervals, and floors follow, until nothing
//            changes
//   bound    height + what remains must stay within the capacity in each section; so must floor + size of
//            each interval
//   part     where no unplaced interval crosses a boundary of sections, the two sides are solved separately:
//            if one fails, the other's choices are not to blame and are not revisited
//   branch   choose a section; place each of the intervals that may lie at its height there; then, if the
//            section has bytes to spare, place none of them: its height rises to the least top on which one
//            of them could rest instead
//
// SectionRule decides which section is chosen. `kFewestChoices` takes the one with the fewest branches per
// failure so far, the tightest first (Boussemart et al., "Boosting systematic search by weighting
// constraints", ECAI 2004). `kLowest` builds from the ground, where the best interval of the order may lie.
//
// Placing an interval raises the heights of all its sections to its top. If that would bury a hole in which
// another interval would fit, a choice has to be made in the hole first, so the section is passed over; above
// the lowest section nothing is ever buried. Of intervals with the same lifetime and size only one is tried.
#include "plan/pack_instance.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace shoehorn::packing {
namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();

class CanonicalSearch {
 public:
  CanonicalSearch(const Instance& instance, std::span<const int32_t> order, SectionRule rule,
                  int64_t capacity, Effort& effort)
      : items_(instance.items),
        rule_(rule),
        capacity_(capacity),
        effort_(effort),
        floor_(items_.size(), 0),
        offsets_(items_.size(), 0),
        rank_(items_.size(), 0),
        sections_(instance.load.size()) {
    for (size_t rank = 0; rank < order.size(); ++rank) rank_[at(order[rank])] = static_cast<int32_t>(rank);
    for (size_t s = 0; s < sections_.size(); ++s) sections_[s].remaining = instance.load[s];
  }

  SearchResult run() {
    std::vector<int32_t> all(items_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    return solve_parts(all);
  }

  std::vector<int64_t> take_offsets() { return std::move(offsets_); }

 private:
  struct Section {
    int64_t height = 0;
    int64_t remaining = 0;     // sum of the unplaced items
    int64_t lowest_floor = 0;  // scratch: of the unplaced items
    int64_t lowest_top = 0;    // scratch: floor + size
    int32_t candidates = 0;    // scratch: items whose floor is the height
    int32_t best_rank = 0;     // scratch: of the candidates
    bool buries = false;       // scratch: a candidate lies over a hole that could be filled
    int64_t failures = 0;
  };
  using Items = std::span<const int32_t>;  // unplaced items by rising index, that is by begin

  static constexpr int64_t kVisitsPerSection = 4;  // inference, choice and copies, measured
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::max();

  static size_t at(int32_t index) { return static_cast<size_t>(index); }
  std::span<Section> sections_of(const Item& item) {
    return std::span(sections_).subspan(at(item.begin), at(item.end - item.begin));
  }

  SearchResult solve_parts(Items items) {
    std::vector<Items> parts;
    size_t start = 0;
    int32_t end = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const Item& item = items_[at(items[i])];
      if (i > start && item.begin >= end) {
        parts.push_back(items.subspan(start, i - start));
        start = i;
      }
      end = std::max(end, item.end);
    }
    if (start < items.size()) parts.push_back(items.subspan(start));
    // The smallest part is the cheapest to refute.
    std::stable_sort(parts.begin(), parts.end(), [](Items a, Items b) { return a.size() < b.size(); });
    for (size_t i = 0; i < parts.size(); ++i) {
      const SearchResult result = solve_part(parts[i]);
      if (result == SearchResult::kFound) continue;
      for (size_t solved = 0; solved < i; ++solved) {
        for (const int32_t index : parts[solved]) take_back(index);
      }
      return result;
    }
    return SearchResult::kFound;
  }

  SearchResult solve_part(Items items) {
    const int32_t begin = items_[at(items[0])].begin;
    int32_t end = begin;
    for (const int32_t index : items) end = std::max(end, items_[at(index)].end);
    const std::vector<int64_t> heights = heights_within(begin, end);
    const SearchResult result = branch(items, begin, end);
    if (result == SearchResult::kImpossible) restore(heights, begin);
    return result;
  }

  void place(int32_t index, int64_t offset) {
    offsets_[at(index)] = offset;
    for (Section& section : sections_of(items_[at(index)])) {
      section.remaining -= items_[at(index)].size;
      section.height = offset + items_[at(index)].size;
    }
  }

  // Heights are restored apart, for all that was inferred goes with them.
  void take_back(int32_t index) {
    for (Section& section : sections_of(items_[at(index)])) section.remaining += items_[at(index)].size;
  }

  std::vector<int64_t> heights_within(int32_t begin, int32_t end) const {
    std::vector<int64_t> heights(at(end - begin));
    for (int32_t s = begin; s < end; ++s) heights[at(s - begin)] = sections_[at(s)].height;
    return heights;
  }

  void restore(const std::vector<int64_t>& heights, int32_t begin) {
    for (size_t i = 0; i < heights.size(); ++i) sections_[at(begin) + i].height = heights[i];
  }

  // Loops over the choice that no candidate lies at the chosen section's height.
  SearchResult branch(Items items, int32_t begin, int32_t end) {
    std::vector<int32_t> rest;
    for (;;) {
      if (effort_.exhausted()) return SearchResult::kGaveUp;
      if (!infer(items, begin, end)) return SearchResult::kImpossible;
      if (items.size() == 1) {
        place(items[0], floor_[at(items[0])]);
        return SearchResult::kFound;
      }
      const int32_t s = choose_section(items, begin, end);
      CHECK(s != kNone, "[pack] expected a section to branch on among {} intervals", items.size());
      const int64_t height = sections_[at(s)].height;
      const std::vector<int32_t> candidates = candidates_at(items, s);
      const int64_t raised = raised_height(items, candidates, s);
      const std::vector<int64_t> heights = heights_within(begin, end);
      for (size_t i = 0; i < candidates.size(); ++i) {
        const int32_t chosen = candidates[i];
        const auto tried = candidates.begin() + static_cast<ptrdiff_t>(i);
        if (std::any_of(candidates.begin(), tried, [&](int32_t other) { return are_twins(other, chosen); }))
          continue;
        rest.assign(items.begin(), items.end());
        rest.erase(std::lower_bound(rest.begin(), rest.end(), chosen));
        place(chosen, height);
        const SearchResult result = solve_parts(rest);
        if (result != SearchResult::kImpossible) return result;
        take_back(chosen);
        restore(heights, begin);
      }
      if (raised > capacity_ - sections_[at(s)].remaining) return SearchResult::kImpossible;
      sections_[at(s)].height = raised;
    }
  }

  bool are_twins(int32_t a, int32_t b) const {
    const Item& left = items_[at(a)];
    const Item& right = items_[at(b)];
    return left.begin == right.begin && left.end == right.end && left.size == right.size;
  }

  bool infer(Items items, int32_t begin, int32_t end) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int32_t s = begin; s < end; ++s) sections_[at(s)].lowest_floor = kInfinite;
      int64_t visits = 0;
      for (const int32_t index : items) {
        const Item& item = items_[at(index)];
        int64_t floor = 0;
        for (const Section& section : sections_of(item)) floor = std::max(floor, section.height);
        if (floor > capacity_ - item.size) return false;
        floor_[at(index)] = floor;
        for (Section& section : sections_of(item))
          section.lowest_floor = std::min(section.lowest_floor, floor);
        visits += kVisitsPerSection * (1 + item.end - item.begin);
      }
      effort_.spend(visits);
      for (int32_t s = begin; s < end; ++s) {
        Section& section = sections_[at(s)];
        if (section.remaining == 0 || section.lowest_floor <= section.height) continue;
        section.height = section.lowest_floor;
        moved = true;
      }
      for (int32_t s = begin; s < end; ++s) {
        Section& section = sections_[at(s)];
        if (section.remaining > 0 && section.height > capacity_ - section.remaining) {
          ++section.failures;
          return false;
        }
      }
    }
    return true;
  }

  int32_t choose_section(Items items, int32_t begin, int32_t end) {
    survey(items, begin, end);
    int32_t best = kNone;
    std::pair<double, int64_t> best_key;
    for (int32_t s = begin; s < end; ++s) {
      const Section& section = sections_[at(s)];
      if (section.remaining == 0 || section.buries) continue;
      std::pair<double, int64_t> key(static_cast<double>(section.height), section.best_rank);
      if (rule_ == SectionRule::kFewestChoices) {
        const int64_t spare = capacity_ - section.remaining - section.height;
        const double branches = section.candidates + (spare > 0);
        key = {branches / static_cast<double>(1 + section.failures), spare};
      }
      if (best == kNone || key < best_key) {
        best = s;
        best_key = key;
      }
    }
    return best;
  }

  // Fills in the scratch of the sections that choose_section reads.
  void survey(Items items, int32_t begin, int32_t end) {
    for (int32_t s = begin; s < end; ++s) {
      Section& section = sections_[at(s)];
      section.lowest_top = kInfinite;
      section.candidates = 0;
      section.best_rank = kNone;
      section.buries = false;
    }
    for (const int32_t index : items) {
      const int64_t floor = floor_[at(index)];
      const int64_t top = floor + items_[at(index)].size;
      for (Section& section : sections_of(items_[at(index)])) {
        section.lowest_top = std::min(section.lowest_top, top);
        if (section.height != floor) continue;
        ++section.candidates;
        section.best_rank = std::min(section.best_rank, rank_[at(index)]);
      }
    }
    for (const int32_t index : items) {
      const int64_t floor = floor_[at(index)];
      const std::span<Section> sections = sections_of(items_[at(index)]);
      const auto has_hole = [&](const Section& section) { return section.lowest_top <= floor; };
      if (std::none_of(sections.begin(), sections.end(), has_hole)) continue;
      for (Section& section : sections) section.buries |= section.height == floor;
    }
  }

  std::vector<int32_t> candidates_at(Items items, int32_t s) const {
    std::vector<int32_t> candidates;
    for (const int32_t index : items) {
      const Item& item = items_[at(index)];
      if (item.begin > s) break;
      if (item.end > s && floor_[at(index)] == sections_[at(s)].height) candidates.push_back(index);
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](int32_t a, int32_t b) { return rank_[at(a)] < rank_[at(b)]; });
    return candidates;
  }

  // The least offset of an item in the section if none of the candidates lies at its height: the floor of
  // another item, or the top of an unplaced item elsewhere that supports a candidate.
  int64_t raised_height(Items items, std::span<const int32_t> candidates, int32_t s) {
    const Section& section = sections_[at(s)];
    int64_t raised = kInfinite;
    if (section.height == capacity_ - section.remaining) return raised;
    for (const int32_t index : items) {
      const Item& item = items_[at(index)];
      const int64_t floor = floor_[at(index)];
      if (item.begin <= s && s < item.end) {
        if (floor > section.height) raised = std::min(raised, floor);
        continue;
      }
      const int64_t top = floor + item.size;
      if (top >= raised) continue;
      const auto carries = [&](int32_t candidate) { return overlap_in_time(items_[at(candidate)], item); };
      if (std::any_of(candidates.begin(), candidates.end(), carries)) raised = top;
    }
    effort_.spend(static_cast<int64_t>(items.size()));
    return raised;
  }

  std::span<const Item> items_;
  SectionRule rule_;
  int64_t capacity_;
  Effort& effort_;
  std::vector<int64_t> floor_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> rank_;
  std::vector<Section> sections_;
};

}  // namespace

SearchResult search_canonical(const Instance& instance, std::span<const int32_t> order, SectionRule rule,
                              int64_t capacity, Effort& effort, Layout& layout) {
  if (capacity < instance.lower_bound) return SearchResult::kImpossible;
  CanonicalSearch search(instance, order, rule, capacity, effort);
  const SearchResult result = search.run();
  if (result != SearchResult::kFound) return result;
  layout.offsets = search.take_offsets();
  layout.height = 0;
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    layout.height = std::max(layout.height, layout.offsets[i] + instance.items[i].size);
  }
  return result;
}

}  // namespace shoehorn::packing
