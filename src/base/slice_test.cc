#include "base/slice.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/error.h"

namespace shoehorn {
namespace {

// The slow reference: whether each element of the tensor is in the slice.
std::vector<bool> members_of(const Slice& slice, int64_t elements) {
  std::vector<bool> members(static_cast<size_t>(elements));
  for (int64_t run = 0; run < slice.runs; ++run) {
    for (int64_t i = 0; i < slice.length; ++i)
      members.at(static_cast<size_t>(slice.offset + run * slice.stride + i)) = true;
  }
  return members;
}

// The global numbers of a slice's elements, in order.
std::vector<int64_t> numbers_of(const Slice& slice, int64_t elements) {
  std::vector<int64_t> numbers;
  const std::vector<bool> members = members_of(slice, elements);
  for (int64_t i = 0; i < elements; ++i) {
    if (members[static_cast<size_t>(i)]) numbers.push_back(i);
  }
  return numbers;
}

struct Sliced {
  Slice slice;
  int64_t elements = 0;
};

// Empty ones, whole ones, flat ranges, and blocks along every dimension.
std::vector<Sliced> random_slices(int64_t count) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  std::vector<Sliced> slices = {{Slice{}, 0}, {Slice{}, 7}, {Slice::whole(7), 7}};
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int64_t> shape = {1 + below(4), 1 + below(5), 1 + below(6)};
    const int64_t elements = shape[0] * shape[1] * shape[2];
    const int64_t axis = below(4);
    const int64_t dim = axis == 3 ? elements : shape[static_cast<size_t>(axis)];
    const int64_t begin = below(dim + 1);
    const int64_t end = begin + below(dim - begin + 1);
    slices.push_back(
        {axis == 3 ? Slice::range(begin, end) : Slice::block(shape, axis, begin, end), elements});
  }
  return slices;
}

TEST(Slice, HasOneForm) {
  const std::vector<int64_t> shape = {4, 6, 5};
  EXPECT_EQ(Slice::whole(120), (Slice{0, 120, 120, 1}));
  EXPECT_EQ(Slice::range(7, 7), Slice{});
  EXPECT_EQ(Slice::block(shape, 0, 1, 3), (Slice{30, 60, 60, 1})) << "rows are one run";
  EXPECT_EQ(Slice::block(shape, 1, 2, 4), (Slice{10, 10, 30, 4}));
  EXPECT_EQ(Slice::block(shape, 2, 4, 5), (Slice{4, 1, 5, 24}));
  EXPECT_EQ(Slice::block(shape, 2, 0, 5), Slice::whole(120));
  EXPECT_EQ(Slice::block(shape, 1, 3, 3), Slice{});
  EXPECT_EQ(Slice::block(std::vector<int64_t>{1, 6}, 1, 2, 5), Slice::range(2, 5)) << "of a single row";
  EXPECT_EQ(Slice::block(std::vector<int64_t>{3, 0, 2}, 2, 0, 1), Slice{});
  EXPECT_THROW(Slice::block(shape, 3, 0, 1), InternalError);
  EXPECT_THROW(Slice::block(shape, 1, 2, 7), InternalError);
  EXPECT_THROW(Slice::range(3, 2), InternalError);
}

TEST(Slice, NumbersOfNoSliceAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const Slice& numbers : {Slice{0, 10, 10, 1}, Slice{3, 7, 7, 1}, Slice{1, 2, 4, 3}, Slice{}})
    EXPECT_EQ(Slice::make(numbers, 11), numbers) << slice_text(numbers);
  for (const Slice& numbers :
       {Slice{0, 12, 12, 1}, Slice{4, 8, 8, 1}, Slice{1, 2, 5, 3}, Slice{2, 2, 4, 3}, Slice{0, 2, 2, 2},
        Slice{0, 3, 2, 2}, Slice{0, 3, 4, 1}, Slice{1, 0, 0, 0}, Slice{0, 0, 0, 1}, Slice{-1, 2, 2, 1},
        Slice{0, -2, -2, 1}, Slice{0, 2, 4, -1}, Slice{kMost, 1, 1, 1}, Slice{0, kMost, kMost, 1},
        Slice{0, 1, kMost, 2}, Slice{0, 1, 2, kMost}, Slice{0, 1, 0, 2}}) {
    EXPECT_FALSE(Slice::make(numbers, 11).has_value())
        << numbers.offset << " " << numbers.length << " " << numbers.stride << " " << numbers.runs;
  }
}

TEST(Slice, NumbersAreThoseOfItsElements) {
  for (const auto& [slice, elements] : random_slices(300)) {
    ASSERT_EQ(Slice::make(slice, elements), slice) << slice_text(slice);
    const std::vector<int64_t> numbers = numbers_of(slice, elements);
    const std::vector<bool> members = members_of(slice, elements);
    ASSERT_EQ(slice.elements(), std::ssize(numbers));
    EXPECT_EQ(slice.end(), numbers.empty() ? 0 : numbers.back() + 1);
    int64_t before = 0;
    for (int64_t global = 0; global < elements; ++global) {
      EXPECT_EQ(slice.elements_before(global), before) << slice_text(slice) << " " << global;
      EXPECT_EQ(slice.contains(global), members[static_cast<size_t>(global)]);
      before += members[static_cast<size_t>(global)] ? 1 : 0;
    }
    for (int64_t local = 0; local < slice.elements(); ++local)
      EXPECT_EQ(slice.global_of(local), numbers[static_cast<size_t>(local)]);
  }
}

// Any range of local numbers is visited once, in runs that are as long as they can be.
TEST(SliceRuns, AreTheElementsOfARange) {
  std::mt19937 random(6);
  for (const auto& [slice, elements] : random_slices(300)) {
    const std::vector<int64_t> numbers = numbers_of(slice, elements);
    const auto begin = static_cast<int64_t>(random()) % (slice.elements() + 1);
    const int64_t end = begin + static_cast<int64_t>(random()) % (slice.elements() - begin + 1);
    int64_t at = begin;
    int64_t behind = -1;
    for (const SliceRun& run : SliceRuns(slice, begin, end)) {
      EXPECT_EQ(run.local, at);
      EXPECT_NE(run.global, behind) << "one run, visited as two";
      for (int64_t i = 0; i < run.length; ++i, ++at)
        EXPECT_EQ(run.global + i, numbers[static_cast<size_t>(at)]);
      behind = run.global + run.length;
    }
    EXPECT_EQ(at, end);
  }
}

TEST(SliceRuns, OfTwoSlicesAreTheirCommonElements) {
  const std::vector<Sliced> slices = random_slices(400);
  int64_t pairs = 0;
  for (const auto& [from, elements] : slices) {
    for (const auto& [to, others] : slices) {
      if (others != elements || ++pairs % 7 != 0) continue;
      const std::vector<int64_t> in_from = numbers_of(from, elements);
      const std::vector<int64_t> in_to = numbers_of(to, elements);
      const int64_t begin = to.elements() / 4;
      std::vector<std::pair<int64_t, int64_t>> expected;
      for (int64_t j = begin; j < to.elements(); ++j) {
        const auto found = std::find(in_from.begin(), in_from.end(), in_to[static_cast<size_t>(j)]);
        if (found != in_from.end()) expected.emplace_back(found - in_from.begin(), j);
      }
      std::vector<std::pair<int64_t, int64_t>> visited;
      for_each_common_run(from, to, begin, to.elements(), [&](const CommonRun& run) {
        for (int64_t i = 0; i < run.length; ++i) visited.emplace_back(run.from + i, run.to + i);
      });
      EXPECT_EQ(visited, expected) << slice_text(from) << "; " << slice_text(to);
      if (begin == 0) {
        EXPECT_EQ(common_elements(from, to), std::ssize(expected));
      }
    }
  }
  EXPECT_GT(pairs, 1000);
}

TEST(SliceCover, LayoutsCoverATensorOnce) {
  const std::vector<int64_t> shape = {6, 8};
  std::vector<Slice> layout;
  for (const int64_t begin : {0, 13, 13, 40}) layout.push_back(Slice::range(begin, begin == 0 ? 13 : begin));
  layout.push_back(Slice::range(13, 40));
  layout.push_back(Slice::range(40, 48));
  EXPECT_FALSE(find_cover_defect(layout, 48));
  layout = {Slice::block(shape, 1, 5, 8), Slice::block(shape, 1, 0, 2), Slice::block(shape, 1, 2, 5)};
  EXPECT_FALSE(find_cover_defect(layout, 48));
  layout = {Slice::block(shape, 0, 3, 6), Slice::block(shape, 0, 0, 3)};
  EXPECT_FALSE(find_cover_defect(layout, 48));
  EXPECT_FALSE(find_cover_defect({}, 0));
}

TEST(SliceCover, NamesTheFirstElementsThatAreMissingOrTwice) {
  const auto defect = [](const std::vector<Slice>& layout, int64_t elements) {
    const std::optional<CoverDefect> found = find_cover_defect(layout, elements);
    EXPECT_TRUE(found.has_value());
    return found.value_or(CoverDefect{});
  };
  const std::vector<int64_t> shape = {6, 8};
  CoverDefect missing = defect({Slice::block(shape, 1, 0, 2), Slice::block(shape, 1, 3, 8)}, 48);
  EXPECT_EQ(std::pair(missing.begin, missing.end), std::pair(int64_t{2}, int64_t{3}));
  EXPECT_FALSE(missing.twice);
  missing = defect({Slice::range(0, 40)}, 48);
  EXPECT_EQ(std::pair(missing.begin, missing.end), std::pair(int64_t{40}, int64_t{48}));
  missing = defect({}, 3);
  EXPECT_EQ(std::pair(missing.begin, missing.end), std::pair(int64_t{0}, int64_t{3}));
  const CoverDefect twice = defect({Slice::range(20, 48), Slice::range(0, 24)}, 48);
  EXPECT_EQ(std::pair(twice.begin, twice.end), std::pair(int64_t{20}, int64_t{24}));
  EXPECT_EQ(twice.twice, std::pair(size_t{1}, size_t{0}));
}

TEST(SliceText, SaysWhichElements) {
  EXPECT_EQ(slice_text({}), "no elements");
  EXPECT_EQ(slice_text(Slice::range(3, 18)), "elements 3 to 17");
  EXPECT_EQ(slice_text({12, 4, 16, 8}), "8 runs of 4 elements from 12 on, 16 apart");
}

}  // namespace
}  // namespace shoehorn
