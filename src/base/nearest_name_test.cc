#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"

namespace shoehorn {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(edit_distance("", "", 9), 0);
  EXPECT_EQ(edit_distance("", "abc", 9), 3);
  EXPECT_EQ(edit_distance("abc", "", 9), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting", 9), 3);
  EXPECT_EQ(edit_distance("sitting", "kitten", 9), 3);
  EXPECT_EQ(edit_distance("seed", "sed", 9), 1);
}

TEST(EditDistance, IsAtMostItsBound) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 4), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 2);
  EXPECT_EQ(edit_distance("aaaaaaaa", "bbbbbbbb", 5), 5);
}

// The difference shows in the last letter only: a bound may not cut it off early.
TEST(EditDistance, LooksAtTheWholeOfBothNames) {
  EXPECT_EQ(edit_distance("learning_rate", "learning_rats", 3), 1);
  EXPECT_EQ(edit_distance("xlearning_rate", "learning_rate", 3), 1);
}

TEST(NearestName, IsWithinAThirdOfTheNameOrTwoEdits) {
  const std::vector<std::string> names = {"seed", "learning_rate", "num_train_epochs"};
  EXPECT_EQ(nearest_name("sed", names), "seed");
  EXPECT_EQ(nearest_name("s", names), "");  // three edits
  EXPECT_EQ(nearest_name("learning_rat", names), "learning_rate");
  EXPECT_EQ(nearest_name("lerning-rte", names), "learning_rate");
  EXPECT_EQ(nearest_name("num_epochs", names), "");  // six edits, three allowed
}

// Candidates are told apart by their letters first, which must not shut out one that is near enough: letters
// that changed places are two edits each, those that were dropped or doubled one.
TEST(NearestName, IsFoundWhateverTheEditsAre) {
  EXPECT_EQ(nearest_name("laerning_rate", {"learning_rate"}), "learning_rate");
  EXPECT_EQ(nearest_name("xearning_ratx", {"learning_rate"}), "learning_rate");
  EXPECT_EQ(nearest_name("leeaarning_rate", {"learning_rate"}), "learning_rate");
  EXPECT_EQ(nearest_name("abcd", {"bacd"}), "bacd");  // all letters, two edits
  EXPECT_EQ(nearest_name("abcdef", {"fedcba"}), "");  // the same letters, six edits
}

TEST(NearestName, IsTheOnlyOneThatBeginsSo) {
  const std::vector<std::string> names = {"nproc_per_node", "temperature", "eval_steps", "eval_strategy"};
  EXPECT_EQ(nearest_name("nproc", names), "nproc_per_node");
  EXPECT_EQ(nearest_name("temp", names), "temperature");
  EXPECT_EQ(nearest_name("eval", names), "");  // two begin so
  EXPECT_EQ(nearest_name("np", names), "");    // too short
}

// The first of equals, the nearest of all.
TEST(NearestName, PrefersTheNearest) {
  EXPECT_EQ(nearest_name("ab", {"abcd", "abc", "abx"}), "abc");
  EXPECT_EQ(nearest_name("abc", {"abcd", "abc"}), "abc");
}

}  // namespace
}  // namespace shoehorn
