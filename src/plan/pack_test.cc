#include "plan/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/pack_check.h"
#include "plan/pack_examples.h"
#include "plan/pack_instance.h"

namespace shoehorn {
namespace {

constexpr int64_t kPositions = 64;

int64_t rounded(int64_t size, int64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// The definition, pair by pair.
bool shares_a_byte(const Interval& a, int64_t a_offset, const Interval& b, int64_t b_offset) {
  const int64_t begin = std::max(a_offset, b_offset);
  const int64_t end = std::min(a_offset + a.size_bytes, b_offset + b.size_bytes);
  return a.first <= b.last && b.first <= a.last && begin < end;
}

bool has_overlap(std::span<const Interval> intervals, std::span<const int64_t> offsets) {
  for (size_t i = 0; i < intervals.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (shares_a_byte(intervals[i], offsets[i], intervals[j], offsets[j])) return true;
    }
  }
  return false;
}

// Everything `pack` promises whatever the instance.
void expect_legal(std::span<const Interval> intervals, const Packing& packing, int64_t alignment) {
  ASSERT_EQ(packing.offsets.size(), intervals.size());
  EXPECT_NO_THROW(validate_no_overlap(intervals, packing.offsets, alignment, packing.bytes));
  int64_t bytes = 0;
  int64_t positions = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    EXPECT_EQ(packing.offsets[i] % alignment, 0);
    EXPECT_GE(packing.offsets[i], 0);
    if (intervals[i].size_bytes == 0) {
      EXPECT_EQ(packing.offsets[i], 0);
    }
    bytes = std::max(bytes, packing.offsets[i] + rounded(intervals[i].size_bytes, alignment));
    positions = std::max(positions, intervals[i].last + 1);
  }
  EXPECT_EQ(packing.bytes, bytes);
  EXPECT_GE(packing.bytes, packing.lower_bound_bytes);
  int64_t most = 0;
  for (const int64_t live : live_bytes_by_position(intervals, positions, alignment))
    most = std::max(most, live);
  EXPECT_EQ(packing.lower_bound_bytes, most);
}

// Whether intervals [next, …) can be added below `capacity`, trying every offset.
bool can_place(std::span<const Interval> intervals, std::vector<int64_t>& offsets, int64_t capacity) {
  const size_t next = offsets.size();
  if (next == intervals.size()) return true;
  for (int64_t offset = 0; offset + intervals[next].size_bytes <= capacity; ++offset) {
    bool is_free = true;
    for (size_t i = 0; i < next && is_free; ++i) {
      is_free = !shares_a_byte(intervals[i], offsets[i], intervals[next], offset);
    }
    if (!is_free) continue;
    offsets.push_back(offset);
    if (can_place(intervals, offsets, capacity)) return true;
    offsets.pop_back();
  }
  return false;
}

int64_t exhaustive_optimum(std::span<const Interval> intervals, int64_t lower_bound) {
  for (int64_t capacity = lower_bound;; ++capacity) {
    std::vector<int64_t> offsets;
    if (can_place(intervals, offsets, capacity)) return capacity;
  }
}

// Two ranges that are given back one after the other take what is as large as both.
TEST(PlaceByTime, FreeRangesJoin) {
  // The second, between the first and what stays, is free before the first is; and the other way round.
  for (const bool second_first : {true, false}) {
    packing::Instance instance;
    instance.items = {{0, second_first ? 4 : 3, 1}, {1, second_first ? 3 : 4, 1}, {2, 9, 1}, {4, 9, 2}};
    instance.load.assign(9, 0);
    for (const packing::Fit fit : {packing::Fit::kFirst, packing::Fit::kBest}) {
      const packing::Layout layout = packing::place_by_time(instance, false, fit);
      EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 1, 2, 0}));
      EXPECT_EQ(layout.height, 3);
    }
  }
}

TEST(Pack, Empty) {
  const Packing packing = pack({}, 64);
  EXPECT_TRUE(packing.offsets.empty());
  EXPECT_EQ(packing.bytes, 0);
  EXPECT_EQ(packing.lower_bound_bytes, 0);
}

TEST(Pack, SingleIsRoundedUp) {
  const std::vector<Interval> intervals = {{3, 7, 100}};
  const Packing packing = pack(intervals, 64);
  EXPECT_EQ(packing.offsets, std::vector<int64_t>{0});
  EXPECT_EQ(packing.bytes, 128);
  expect_legal(intervals, packing, 64);
}

TEST(Pack, ZeroSizesMeetNothing) {
  const std::vector<Interval> intervals = {{0, 9, 0}, {0, 9, 10}, {2, 3, 0}};
  const Packing packing = pack(intervals, 1);
  EXPECT_EQ(packing.bytes, 10);
  expect_legal(intervals, packing, 1);
  EXPECT_EQ(pack(std::vector<Interval>{{0, 9, 0}}, 64).bytes, 0);
}

TEST(Pack, LastIsInclusive) {
  EXPECT_EQ(pack(std::vector<Interval>{{0, 3, 8}, {3, 5, 8}}, 8).bytes, 16);
  EXPECT_EQ(pack(std::vector<Interval>{{0, 3, 8}, {4, 5, 8}}, 8).bytes, 8);
}

TEST(Pack, IdenticalAreStacked) {
  const std::vector<Interval> intervals(17, {2, 5, 24});
  const Packing packing = pack(intervals, 1);
  EXPECT_EQ(packing.bytes, 17 * 24);
  expect_legal(intervals, packing, 1);
}

TEST(Pack, NestedMeetTheLowerBound) {
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < 101; ++i) intervals.push_back({i, 300 - i, 7 * i + 1});
  const Packing packing = pack(intervals, 16, 0, 0);
  EXPECT_EQ(packing.bytes, packing.lower_bound_bytes);
  expect_legal(intervals, packing, 16);
}

TEST(Pack, TinyInstancesAreOptimal) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    ExampleRandom random(seed);
    std::vector<Interval> intervals = random_intervals(random, random.between(1, 8), 7, 4, 3);
    const Packing packing = pack(intervals, 1);
    expect_legal(intervals, packing, 1);
    ASSERT_EQ(packing.bytes, exhaustive_optimum(intervals, packing.lower_bound_bytes)) << "seed " << seed;
  }
}

// Cuts [begin, end) x [bottom, bottom + size) at random into rectangles, which so fill it without a gap.
void cut(ExampleRandom& random, packing::Item whole, int64_t pieces, std::vector<packing::Item>& items) {
  const bool in_time = random.between(0, 1) == 0;
  if (pieces <= 1 || (in_time ? whole.end - whole.begin : whole.size) < 2) {
    items.push_back(whole);
    return;
  }
  packing::Item one = whole;
  packing::Item other = whole;
  if (in_time) {
    one.end = other.begin = static_cast<int32_t>(random.between(whole.begin + 1, whole.end - 1));
  } else {
    one.size = random.between(1, whole.size - 1);
    other.size = whole.size - one.size;
  }
  cut(random, one, pieces / 2, items);
  cut(random, other, pieces - pieces / 2, items);
}

// Sorts the items, and sets the facts that follow from them.
void complete(packing::Instance& instance, int32_t sections) {
  std::stable_sort(instance.items.begin(), instance.items.end(),
                   [](const packing::Item& a, const packing::Item& b) { return a.begin < b.begin; });
  instance.load.assign(static_cast<size_t>(sections), 0);
  for (const packing::Item& item : instance.items) {
    for (int32_t s = item.begin; s < item.end; ++s) instance.load[static_cast<size_t>(s)] += item.size;
  }
  for (const packing::Item& item : instance.items) {
    instance.contention.push_back(
        *std::max_element(instance.load.begin() + item.begin, instance.load.begin() + item.end));
  }
  instance.lower_bound = *std::max_element(instance.load.begin(), instance.load.end());
}

// A full rectangle, cut up, has a packing without slack; with some pieces missing, one with slack.
packing::Instance planted_instance(ExampleRandom& random, int32_t sections, int64_t capacity) {
  packing::Instance instance;
  cut(random, {0, sections, capacity}, random.between(2, 64), instance.items);
  const int64_t missing_percent = random.between(0, 2) * 10;
  std::erase_if(instance.items,
                [&](const packing::Item&) { return random.between(0, 99) < missing_percent; });
  complete(instance, sections);
  return instance;
}

// No inference, bound or symmetry of the search may lose the last packing.
TEST(SearchCanonical, NeverRefutesAPlantedPacking) {
  constexpr int64_t kCapacity = 50;
  int64_t found = 0, searches = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    ExampleRandom random(seed);
    const packing::Instance instance = planted_instance(random, 12, kCapacity);
    if (instance.items.empty()) continue;
    for (const packing::SectionRule rule :
         {packing::SectionRule::kFewestChoices, packing::SectionRule::kLowest}) {
      const auto order =
          packing::order_by(instance, packing::kCriteria[seed % std::size(packing::kCriteria)]);
      packing::Effort effort(1'000'000);
      packing::Layout layout;
      const auto result = packing::search_canonical(instance, order, rule, kCapacity, effort, layout);
      ASSERT_NE(result, packing::SearchResult::kImpossible) << "seed " << seed;
      ++searches;
      if (result != packing::SearchResult::kFound) continue;
      ++found;
      std::vector<Interval> intervals;
      for (const packing::Item& item : instance.items) {
        intervals.push_back({item.begin, item.end - 1, item.size});
      }
      EXPECT_NO_THROW(validate_no_overlap(intervals, layout.offsets, 1, kCapacity));
    }
  }
  EXPECT_GT(found, searches * 8 / 10);
}

// Full sections are where the search has least room: at the optimum it finds a packing.
TEST(SearchCanonical, FindsTheOptimumOfTinyInstances) {
  constexpr int32_t kSections = 6;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    ExampleRandom random(seed);
    packing::Instance instance;
    std::vector<Interval> intervals;
    for (int64_t count = random.between(5, 9); count > 0; --count) {
      const auto begin = static_cast<int32_t>(random.between(0, kSections - 1));
      const auto end = static_cast<int32_t>(random.between(begin + 1, kSections));
      instance.items.push_back({begin, end, random.between(1, 4)});
    }
    complete(instance, kSections);
    for (const packing::Item& item : instance.items)
      intervals.push_back({item.begin, item.end - 1, item.size});
    const int64_t optimum = exhaustive_optimum(intervals, instance.lower_bound);
    const auto order = packing::order_by(instance, packing::Criterion::kSize);
    for (const packing::SectionRule rule :
         {packing::SectionRule::kFewestChoices, packing::SectionRule::kLowest}) {
      packing::Layout layout;
      packing::Effort enough(100'000'000);
      ASSERT_EQ(packing::search_canonical(instance, order, rule, optimum, enough, layout),
                packing::SearchResult::kFound)
          << "seed " << seed;
      EXPECT_NO_THROW(validate_no_overlap(intervals, layout.offsets, 1, optimum));
    }
  }
}

// Intervals of one lifetime but of other sizes are each tried. Two packings fit, this one and the same upside down; in
// both the larger lies below the smaller in some of the pairs (6 and 4, 6 and 3, 3 and 2) and above it in others. As
// offsets rise, with * for an interval that began before:
//
//   time 0    6  3      4
//   time 1    6  *      3  1
//   time 2    4  2  *   3  *
//   time 3    *  8         *
//   time 4    *  9
TEST(SearchCanonical, IntervalsOfOneLifetimeAndOtherSizesAreNoTwins) {
  constexpr int64_t kCapacity = 13;
  packing::Instance instance;
  instance.items = {{0, 3, 3}, {0, 1, 6}, {0, 1, 4}, {1, 4, 1}, {1, 2, 6}, {1, 2, 3},
                    {2, 5, 4}, {2, 3, 2}, {2, 3, 3}, {3, 4, 8}, {4, 5, 9}};
  complete(instance, 5);
  std::vector<Interval> intervals;
  for (const packing::Item& item : instance.items) intervals.push_back({item.begin, item.end - 1, item.size});
  for (const packing::Criterion criterion : packing::kCriteria) {
    for (const packing::SectionRule rule :
         {packing::SectionRule::kFewestChoices, packing::SectionRule::kLowest}) {
      packing::Effort enough(1'000'000);
      packing::Layout layout;
      ASSERT_EQ(packing::search_canonical(instance, packing::order_by(instance, criterion), rule, kCapacity,
                                          enough, layout),
                packing::SearchResult::kFound);
      EXPECT_NO_THROW(validate_no_overlap(intervals, layout.offsets, 1, kCapacity));
    }
  }
}

TEST(ImproveByReordering, KeepsTheBestThatItFinds) {
  int64_t improved = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ExampleRandom random(seed);
    const packing::Instance instance = planted_instance(random, 12, 50);
    if (instance.items.empty()) continue;
    packing::Effort effort(1'000'000);
    packing::Layout layout = packing::place_by_order(
        instance, packing::order_by(instance, packing::Criterion::kSize), packing::Fit::kFirst, effort);
    const int64_t height = layout.height;
    const bool is_better = packing::improve_by_reordering(instance, instance.lower_bound, effort, layout);
    EXPECT_EQ(is_better, layout.height < height);
    improved += is_better;
    std::vector<Interval> intervals;
    for (const packing::Item& item : instance.items)
      intervals.push_back({item.begin, item.end - 1, item.size});
    EXPECT_NO_THROW(validate_no_overlap(intervals, layout.offsets, 1, layout.height));
  }
  EXPECT_GT(improved, 10);
}

TEST(Pack, RandomInstancesAreLegalAndReproducible) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    ExampleRandom random(1000 + seed);
    const int64_t alignment = std::vector<int64_t>{1, 3, 64, 4096}[seed % 4];
    const std::vector<Interval> intervals =
        random_intervals(random, random.between(1, 150), kPositions, random.between(1, kPositions),
                         random.between(1, 100'000));
    const int64_t effort = random.between(0, 2'000'000);
    const Packing packing = pack(intervals, alignment, 0, effort);
    expect_legal(intervals, packing, alignment);
    ASSERT_FALSE(has_overlap(intervals, packing.offsets));
    ASSERT_EQ(packing.offsets, pack(intervals, alignment, 0, effort).offsets);
  }
}

TEST(Pack, MoreEffortIsNeverWorse) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    ExampleRandom random(77 + seed);
    const std::vector<Interval> intervals = random_intervals(random, 120, 100, 40, 1000);
    int64_t bytes = std::numeric_limits<int64_t>::max();
    for (const int64_t effort : {0, 10'000, 1'000'000, 20'000'000}) {
      const Packing packing = pack(intervals, 1, 0, effort);
      EXPECT_LE(packing.bytes, bytes);
      bytes = packing.bytes;
    }
  }
}

// The first packing that meets the target is taken, where more effort finds a lower one.
TEST(Pack, StopsAtTheTarget) {
  ExampleRandom random(5);
  const std::vector<Interval> intervals = random_intervals(random, 200, 300, 100, 1 << 20);
  const Packing easy = pack(intervals, 64, 0, 0);
  const Packing targeted = pack(intervals, 64, 2 * easy.bytes);
  expect_legal(intervals, targeted, 64);
  EXPECT_EQ(targeted.offsets, pack(intervals, 64, 2 * easy.bytes, 0).offsets);
  EXPECT_LT(pack(intervals, 64).bytes, targeted.bytes);
}

TEST(Pack, TrainingStepsMeetTheLowerBoundWithinTwoPercent) {
  for (const bool recompute : {false, true}) {
    for (const bool accumulate : {false, true}) {
      for (uint64_t seed = 0; seed < 40; ++seed) {
        ExampleRandom random(seed);
        StepShape shape;
        shape.layers = random.between(1, 30);
        shape.hidden = 64 * random.between(1, 40);
        shape.feed_forward = shape.hidden * random.between(2, 4) + 8 * random.between(0, 3);
        shape.heads = std::max<int64_t>(1, shape.hidden / 64);
        shape.tokens = random.between(16, 5000);
        shape.vocabulary = random.between(300, 60'000);
        shape.workspace_bytes = random.between(0, 1 << 24);
        shape.recompute = recompute;
        shape.accumulate = accumulate;
        const std::vector<Interval> intervals = TrainingStepExample(shape).make();
        const Packing packing = pack(intervals, 64);
        expect_legal(intervals, packing, 64);
        EXPECT_LE(packing.bytes, packing.lower_bound_bytes + packing.lower_bound_bytes / 50)
            << "seed " << seed << " recompute " << recompute << " accumulate " << accumulate;
      }
    }
  }
}

TEST(Pack, FiftyThousandIntervals) {
  const std::vector<Interval> step = TrainingStepExample({.layers = 1250}).make();
  ASSERT_GT(step.size(), 50'000U);
  const Packing packing = pack(step, 64);
  expect_legal(step, packing, 64);
  EXPECT_LE(packing.bytes, packing.lower_bound_bytes + packing.lower_bound_bytes / 50);

  ExampleRandom random(9);
  const std::vector<Interval> intervals = random_intervals(random, 50'000, 100'000, 1000, 1 << 20);
  expect_legal(intervals, pack(intervals, 64), 64);
}

TEST(Pack, HugeSizesFitOrAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<Interval> apart = {{0, 1, kHuge}, {2, 3, kHuge}, {4, 4, kHuge}};
  EXPECT_EQ(pack(apart, 1).bytes, kHuge);
  const std::vector<Interval> beside = {{0, 1, kHuge}, {1, 2, kHuge - 1}};
  EXPECT_EQ(pack(beside, 1).bytes, 2 * (kHuge - 1) + 1);
  EXPECT_THROW(pack(std::vector<Interval>{{0, 1, kHuge}, {1, 2, kHuge}}, 1), UserError);
  EXPECT_THROW(pack(std::vector<Interval>{{0, 1, kHuge}, {1, 2, kHuge}}, 64), UserError);
  const std::vector<Interval> largest = {{0, 1, std::numeric_limits<int64_t>::max()}};
  EXPECT_EQ(pack(largest, 1).bytes, std::numeric_limits<int64_t>::max());
  EXPECT_THROW(pack(largest, 64), UserError);
  EXPECT_THROW(live_bytes_by_position(std::vector<Interval>{{0, 1, kHuge}, {1, 2, kHuge}}, 3), UserError);
  EXPECT_EQ(live_bytes_by_position(apart, 5), std::vector<int64_t>(5, kHuge));
}

TEST(Pack, MalformedIntervalsAreInternalErrors) {
  EXPECT_THROW(pack(std::vector<Interval>{{3, 2, 8}}, 1), InternalError);
  EXPECT_THROW(pack(std::vector<Interval>{{-1, 2, 8}}, 1), InternalError);
  EXPECT_THROW(pack(std::vector<Interval>{{0, 2, -8}}, 1), InternalError);
  EXPECT_THROW(pack({}, 0), InternalError);
  EXPECT_THROW(pack({}, 1, -1), InternalError);
  EXPECT_THROW(pack({}, 1, 0, -1), InternalError);
  EXPECT_THROW(live_bytes_by_position(std::vector<Interval>{{0, 2, 8}}, 2), InternalError);
}

TEST(ValidateNoOverlap, NamesThePair) {
  const std::vector<Interval> intervals = {{0, 9, 64}, {2, 3, 64}, {3, 5, 100}};
  EXPECT_NO_THROW(validate_no_overlap(intervals, std::vector<int64_t>{0, 64, 128}, 64, 228));
  try {
    validate_no_overlap(intervals, std::vector<int64_t>{0, 128, 64}, 64, 228);
    FAIL() << "intervals 1 and 2 overlap";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("interval 2"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("interval 1"), std::string::npos) << error.what();
  }
  EXPECT_THROW(validate_no_overlap(intervals, std::vector<int64_t>{0, 64, 128}, 64, 227), InternalError);
  EXPECT_THROW(validate_no_overlap(intervals, std::vector<int64_t>{0, 64, 129}, 64, 300), InternalError);
  EXPECT_THROW(validate_no_overlap(intervals, std::vector<int64_t>{-64, 0, 128}, 64, 300), InternalError);
  EXPECT_THROW(validate_no_overlap(intervals, std::vector<int64_t>{0, 64}, 64, 300), InternalError);
}

TEST(ValidateNoOverlap, AgreesWithTheDefinition) {
  int64_t overlapping = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    ExampleRandom random(seed);
    const std::vector<Interval> intervals = random_intervals(random, random.between(0, 9), 12, 4, 6);
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < intervals.size(); ++i) offsets.push_back(random.between(0, 20));
    const bool expected = has_overlap(intervals, offsets);
    overlapping += expected;
    if (expected) {
      EXPECT_THROW(validate_no_overlap(intervals, offsets, 1, 100), InternalError) << "seed " << seed;
    } else {
      EXPECT_NO_THROW(validate_no_overlap(intervals, offsets, 1, 100)) << "seed " << seed;
    }
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_LT(overlapping, 3500);
}

TEST(LiveBytesByPosition, CountsEachPosition) {
  const std::vector<Interval> intervals = {{0, 1, 10}, {1, 3, 5}, {3, 3, 0}};
  EXPECT_EQ(live_bytes_by_position(intervals, 5), (std::vector<int64_t>{10, 15, 5, 5, 0}));
  EXPECT_EQ(live_bytes_by_position(intervals, 5, 8), (std::vector<int64_t>{16, 24, 8, 8, 0}));
  EXPECT_TRUE(live_bytes_by_position({}, 0).empty());
}

std::vector<Interval> read_minimalloc(const std::string& path) {
  std::ifstream file(path);
  std::vector<Interval> intervals;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    int64_t id = 0, lower = 0, upper = 0, size = 0;
    if (fields >> id >> lower >> upper >> size) intervals.push_back({lower, upper - 1, size});
  }
  return intervals;
}

// The published hard instances, all of which fit 1,048,576 bytes.
TEST(Pack, MinimallocInstances) {
  constexpr int64_t kCapacity = 1'048'576;
  struct Expectation {
    const char* name;
    size_t count;
    int64_t effort;
    int64_t bytes;  // at most
  };
  const Expectation expectations[] = {
      {"A", 154, 100'000'000, kCapacity},   {"B", 170, 100'000'000, kCapacity},
      {"C", 203, 100'000'000, kCapacity},   {"D", 213, 100'000'000, kCapacity},
      {"E", 215, 100'000'000, kCapacity},   {"F", 296, 100'000'000, kCapacity},
      {"G", 308, 100'000'000, 1'077'248},   {"H", 316, 100'000'000, kCapacity},
      {"I", 374, 100'000'000, kCapacity},   {"J", 409, 1'000'000'000, kCapacity},
      {"K", 454, 1'000'000'000, kCapacity},
  };
  const std::string folder = SHOEHORN_SHARED_DIR "/data/minimalloc/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no instances in " << folder;
  for (const Expectation& expected : expectations) {
    const std::vector<Interval> intervals = read_minimalloc(folder + expected.name + ".1048576.csv");
    ASSERT_EQ(intervals.size(), expected.count) << expected.name;
    const Packing packing = pack(intervals, 1, kCapacity, expected.effort);
    EXPECT_NO_THROW(validate_no_overlap(intervals, packing.offsets, 1, packing.bytes));
    EXPECT_LE(packing.bytes, expected.bytes) << expected.name;
  }
}

}  // namespace
}  // namespace shoehorn
