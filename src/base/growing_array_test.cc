#include "base/growing_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "base/process.h"
#include "base/sanitizer_testing.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

TEST(GrowingArrayTest, IsAVector) {
  GrowingArray<int32_t> array = {7};
  std::vector<int32_t> expected = {7};
  std::vector<int32_t> added(100);
  for (int turn = 0; turn < 200; ++turn) {
    std::iota(added.begin(), added.end(), turn);
    array.append(added);
    expected.insert(expected.end(), added.begin(), added.end());
    array.push_back(-turn);
    expected.push_back(-turn);
    if (turn % 50 == 49) {
      array.resize(array.size() - 120);
      expected.resize(expected.size() - 120);
      array.resize(array.size() + 30);
      expected.resize(expected.size() + 30);
    }
    ASSERT_EQ(array, expected) << turn;
    EXPECT_GE(array.capacity(), array.size());
  }
  EXPECT_EQ(array.back(), expected.back());
  EXPECT_EQ(array[1234], expected[1234]);
  array.shrink_to_fit();
  EXPECT_EQ(array.capacity(), expected.size());
  EXPECT_EQ(array, expected);
  const GrowingArray<int32_t> copy = array;
  array[0] = 8;
  EXPECT_EQ(copy, expected);
  GrowingArray<int32_t> moved = std::move(array);
  EXPECT_EQ(moved[0], 8);
  moved = copy;
  EXPECT_EQ(moved, expected);
  moved.clear();
  EXPECT_TRUE(moved.empty());
  moved.shrink_to_fit();
  EXPECT_EQ(moved.capacity(), 0U);
  moved.append(added);
  EXPECT_EQ(moved, added);
}

TEST(GrowingArrayTest, WhatNoSystemHasIsRefusedAndNothingIsLost) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer ends the process";
  GrowingArray<int64_t> array = {1, 2, 3};
  EXPECT_THROW(array.reserve(SIZE_MAX / 4), std::bad_alloc);
  EXPECT_THROW(array.reserve(size_t{1} << 58), std::bad_alloc);
  EXPECT_EQ(array, (std::vector<int64_t>{1, 2, 3}));
}

// A vector would have the old block beside the new one, and finish() of a data set would copy all of it.
TEST(GrowingArrayTest, IsNeverThereTwice) {
  if (kIsSanitized) GTEST_SKIP() << "the allocator of a sanitizer copies";
  constexpr int64_t kBytes = int64_t{384} << 20;
  const std::vector<int64_t> added(size_t{1} << 17, 5);
  const int64_t before = process_peak_bytes();
  const int64_t held = process_resident_bytes();
  GrowingArray<int64_t> array;
  while (static_cast<int64_t>(array.size()) * 8 < kBytes) array.append(added);
  array.shrink_to_fit();
  // An eighth over, for all else that the process does meanwhile.
  EXPECT_LT(process_peak_bytes(), std::max(before, held + kBytes + kBytes / 8));
  EXPECT_GE(process_resident_bytes(), held + kBytes / 2) << "the values are there";
}

}  // namespace
}  // namespace shoehorn
