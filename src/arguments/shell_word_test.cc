#include "arguments/shell_word.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(ShellWord, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_word("out/a-b_1.csv"), "out/a-b_1.csv");
  EXPECT_EQ(shell_word("my texts.csv"), "'my texts.csv'");
  EXPECT_EQ(shell_word("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a*"), "'a*'");
}

TEST(ShellWord, LinesHaveSpacesBetweenWords) {
  EXPECT_EQ(shell_words({"train", "--output_dir", "my out"}), "train --output_dir 'my out'");
  EXPECT_EQ(shell_words({}), "");
}

}  // namespace
}  // namespace shoehorn
