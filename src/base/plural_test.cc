#include "base/plural.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(Plural, OneIsSingular) {
  EXPECT_EQ(plural(1, "thread"), "1 thread");
  EXPECT_EQ(plural(2, "thread"), "2 threads");
  EXPECT_EQ(plural(0, "training sample"), "0 training samples");
  EXPECT_EQ(plural(3, "class"), "3 classes");
  EXPECT_EQ(plural(3, "batch"), "3 batches");
  EXPECT_EQ(plural(3, "entry"), "3 entries");
  EXPECT_EQ(plural(3, "key"), "3 keys");
  EXPECT_EQ(plural_count(12345, "token"), "12,345 tokens");
  EXPECT_EQ(plural_count(1, "token"), "1 token");
}

}  // namespace
}  // namespace shoehorn
