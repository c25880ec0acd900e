// Iterated reordering: place items by first fit in some order, then repair the order where the packing
// exceeds the goal.
//
// An interval whose top exceeds the goal came too late to a crowded stretch of memory. It moves forward to a
// random place, a few others swap at random, and first fit places the new order. A change is kept unless it
// makes the packing worse by (height, bytes above the goal). After many changes without progress the search
// returns to the best order.
#include "plan/pack_instance.h"

#include <algorithm>
#include <utility>

#include "base/philox.h"

namespace shoehorn::packing {
namespace {

class RandomNumbers {
 public:
  // In [0, bound).
  size_t below(size_t bound) {
    if (used_ == 4) {
      block_ = philox4x32_10(philox_key(kSeed, 0, 0), {counter_++, 0, 0, 0});
      used_ = 0;
    }
    return static_cast<size_t>((uint64_t{block_[used_++]} * bound) >> 32);
  }

 private:
  static constexpr uint64_t kSeed = 0x5E0E4042;
  uint32_t counter_ = 0;
  size_t used_ = 4;
  std::array<uint32_t, 4> block_{};
};

using Score = std::pair<int64_t, double>;

Score score(const Instance& instance, const Layout& layout, int64_t goal) {
  double over = 0;
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    const int64_t top = layout.offsets[i] + instance.items[i].size;
    if (top > goal) over += static_cast<double>(top - goal);
  }
  return {layout.height, over};
}

// The order in which first fit gives back the layout, or a better one.
std::vector<int32_t> order_by_offset(const Layout& layout) {
  std::vector<int32_t> order(layout.offsets.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return layout.offsets[static_cast<size_t>(a)] < layout.offsets[static_cast<size_t>(b)];
  });
  return order;
}

void mend(const Instance& instance, const Layout& layout, int64_t goal, RandomNumbers& random,
          std::vector<int32_t>& order) {
  std::vector<size_t> standing_out;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto item = static_cast<size_t>(order[i]);
    if (layout.offsets[item] + instance.items[item].size > goal) standing_out.push_back(i);
  }
  if (!standing_out.empty()) {
    const size_t from = standing_out[random.below(standing_out.size())];
    const size_t to = random.below(from + 1);
    std::rotate(order.begin() + static_cast<ptrdiff_t>(to), order.begin() + static_cast<ptrdiff_t>(from),
                order.begin() + static_cast<ptrdiff_t>(from) + 1);
  }
  for (size_t swaps = random.below(4); swaps > 0; --swaps) {
    std::swap(order[random.below(order.size())], order[random.below(order.size())]);
  }
}

}  // namespace

bool improve_by_reordering(const Instance& instance, int64_t goal, Effort& effort, Layout& best) {
  constexpr int64_t kPatience = 200;
  const int64_t start_height = best.height;
  RandomNumbers random;
  std::vector<int32_t> order = order_by_offset(best);
  Layout layout = best;
  Score current = score(instance, layout, goal);
  std::vector<int32_t> best_order = order;
  Score best_score = current;
  int64_t since_best = 0;
  while (best.height > goal && !effort.exhausted()) {
    std::vector<int32_t> next = order;
    mend(instance, layout, goal, random, next);
    Layout mended = place_by_order(instance, next, Fit::kFirst, effort);
    const Score mended_score = score(instance, mended, goal);
    ++since_best;
    if (mended_score <= current) {
      current = mended_score;
      order = std::move(next);
      layout = std::move(mended);
    }
    if (current < best_score) {
      best_score = current;
      best_order = order;
      if (layout.height < best.height) best = layout;
      since_best = 0;
    } else if (since_best > kPatience) {
      order = best_order;
      layout = place_by_order(instance, order, Fit::kFirst, effort);
      current = score(instance, layout, goal);
      since_best = 0;
    }
  }
  return best.height < start_height;
}

}  // namespace shoehorn::packing
