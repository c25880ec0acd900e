#include "base/utf8.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(Utf8, ReplacesMaximalSubparts) {
  // Unicode 15, table 3-8 and its neighbours; the right side is what Python gives.
  const std::string r = "\uFFFD";
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("abc\xE2\x82"), "abc" + r);
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Utf8, ValidityAgreesWithReplacement) {
  for (int length = 1; length <= 3; ++length) {
    const int count = length == 1 ? 256 : 20000;
    for (int i = 0; i < count; ++i) {
      std::string text;
      uint32_t seed = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(length);
      if (length == 1) text.push_back(static_cast<char>(i));
      for (int k = 0; length > 1 && k < length * 6; ++k) {
        seed = seed * 1664525u + 1013904223u;
        text.push_back(static_cast<char>(seed >> (k % 2 ? 24 : 25)));
      }
      const std::string replaced = replace_invalid_utf8(text);
      EXPECT_EQ(is_valid_utf8(text), replaced == text);
      EXPECT_EQ(count_invalid_utf8(text) == 0, replaced == text);
      EXPECT_TRUE(is_valid_utf8(replaced));
    }
  }
}

TEST(Utf8, EncodesAndDecodesEveryCodePoint) {
  for (int32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    size_t position = 0;
    ASSERT_EQ(decode_utf8(text, position), c);
    ASSERT_EQ(position, text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8, PlacesOfCodePoints) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  EXPECT_EQ(count_code_points(text), 4);
  EXPECT_EQ(begin_of_last_code_point(text, text.size()), 6U);
  EXPECT_EQ(begin_of_last_code_point(text, 6), 3U);
  EXPECT_EQ(begin_of_last_code_point(text, 1), 0U);
}

}  // namespace
}  // namespace shoehorn
