#include "base/strip.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(Strip, TakesSpacesOffBothSides) {
  EXPECT_EQ(strip(""), "");
  EXPECT_EQ(strip(" \t\r\n\v\f"), "");
  EXPECT_EQ(strip("a"), "a");
  EXPECT_EQ(strip(" \ta b\n"), "a b");
}

}  // namespace
}  // namespace shoehorn
