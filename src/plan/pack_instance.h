// Shared by the packing algorithms: the reduced problem, a layout of it, and the count of effort. Private to
// pack*.cc.
//
// Sizes, offsets and heights are in units of the alignment. Their sum over an instance fits int64_t, so no
// addition of sizes within an instance can overflow.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace shoehorn::packing {

// An interval in sections: alive in [begin, end), begin < end; size > 0.
struct Item {
  int32_t begin = 0;
  int32_t end = 0;
  int64_t size = 0;
};

inline bool overlap_in_time(const Item& a, const Item& b) {
  return a.begin < b.end && b.begin < a.end;
}

// Items that cannot be separated into independent groups in time; sorted by begin.
struct Instance {
  std::vector<Item> items;
  std::vector<int64_t> load;        // (section_count) sum of the sizes alive in each section
  std::vector<int64_t> contention;  // (item_count) the largest load that an item lives through
  int64_t lower_bound = 0;          // max of load

  int32_t item_count() const { return static_cast<int32_t>(items.size()); }
  int32_t section_count() const { return static_cast<int32_t>(load.size()); }
};

struct Layout {
  std::vector<int64_t> offsets;
  int64_t height = std::numeric_limits<int64_t>::max();
};

// Deterministic stand-in for time: how many visits of items are left.
class Effort {
 public:
  explicit Effort(int64_t visits) : left_(visits) {}
  void spend(int64_t visits) { left_ -= visits; }
  int64_t left() const { return left_; }
  bool exhausted() const { return left_ <= 0; }

 private:
  int64_t left_;
};

enum class Criterion { kLifetime, kSize, kArea, kContention, kContentionByLifetime, kContentionByArea };
inline constexpr Criterion kCriteria[] = {Criterion::kLifetime, Criterion::kContention,
                                          Criterion::kArea,     Criterion::kContentionByLifetime,
                                          Criterion::kSize,     Criterion::kContentionByArea};

// Items in falling order of the criterion; ties by the other measures, at last by index.
std::vector<int32_t> order_by(const Instance& instance, Criterion criterion);

enum class Fit { kFirst, kBest };

// pack_greedy.cc. Each returns a valid layout. `reversed` sweeps from the end of time.
Layout place_by_time(const Instance& instance, bool reversed, Fit fit);
Layout place_on_skyline(const Instance& instance, std::span<const int32_t> order);
// O(n²) visits, which count as effort.
Layout place_by_order(const Instance& instance, std::span<const int32_t> order, Fit fit, Effort& effort);

// pack_search.cc. Searches for a layout of at most `capacity`, trying items in `order`. The recursion is as
// deep as there are items. kImpossible is proven.
enum class SearchResult { kFound, kImpossible, kGaveUp };
enum class SectionRule { kFewestChoices, kLowest };
SearchResult search_canonical(const Instance& instance, std::span<const int32_t> order, SectionRule rule,
                              int64_t capacity, Effort& effort, Layout& layout);

// pack_local.cc. Improves `best` until it is at most `goal` or no effort is left. Returns true if it
// improved.
bool improve_by_reordering(const Instance& instance, int64_t goal, Effort& effort, Layout& best);

}  // namespace shoehorn::packing
