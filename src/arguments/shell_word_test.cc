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

TEST(ShellWord, LongCommandsHaveAFlagALine) {
  const std::vector<std::string> words = {"shoehorn", "train",  "--seeds",      "1",
                                          "-2",       "--bf16", "--output_dir", "my 'out'/"};
  const std::string lines = shell_lines(words);
  EXPECT_EQ(lines, "shoehorn train \\\n  --seeds 1 -2 \\\n  --bf16 \\\n  --output_dir 'my '\\''out'\\''/'");
  std::string joined = lines;
  for (size_t at = 0; (at = joined.find(" \\\n  ")) != std::string::npos;) joined.replace(at, 5, " ");
  EXPECT_EQ(joined, shell_words(words)) << "what a shell reads is the same";
  EXPECT_EQ(shell_lines({}), "");
}

}  // namespace
}  // namespace shoehorn
