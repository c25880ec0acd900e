#include "report/text_layout.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

using Lines = std::vector<std::string>;

TEST(TextLayoutTest, BreaksAtSpacesAndNothingIsLost) {
  const std::string text = "one two three four five";
  EXPECT_EQ(wrapped(text, 1000), Lines{text});
  for (const double width : {40.0, 60.0, 100.0}) {
    std::string joined;
    for (const std::string& line : wrapped(text, width)) {
      EXPECT_LE(text_width(line), width);
      joined += (joined.empty() ? "" : " ") + line;
    }
    EXPECT_EQ(joined, text);
  }
  EXPECT_EQ(wrapped("", 10), Lines{""});
}

TEST(TextLayoutTest, AWordWiderThanALineIsBrokenBetweenCharacters) {
  const std::string word = "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9";
  const Lines lines = wrapped(word, 2 * kFontSize);
  EXPECT_EQ(lines, (Lines{"\xC3\xA9\xC3\xA9", "\xC3\xA9\xC3\xA9"}));
  EXPECT_EQ(wrapped("ab", 1), (Lines{"a", "b"})) << "a character a line at least";
}

}  // namespace
}  // namespace shoehorn
