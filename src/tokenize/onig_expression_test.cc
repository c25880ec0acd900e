#include "tokenize/onig_expression.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shoehorn {
namespace {

std::vector<std::string> matches_of(const std::string& expression, std::string_view text) {
  std::vector<TextRange> ranges;
  OnigExpression(expression, "test").find(text, {0, text.size()}, ranges);
  std::vector<std::string> matches;
  for (const TextRange& range : ranges) matches.emplace_back(text.substr(range.begin, range.size()));
  return matches;
}

using Matches = std::vector<std::string>;

TEST(OnigExpression, ReadsSyntaxAsRuby) {
  EXPECT_EQ(matches_of("^a|b$", "ab\nab\n"), (Matches{"a", "b", "a", "b"}));
  EXPECT_EQ(matches_of("a{,2}", "aaa"), (Matches{"aa", "a"}));
  EXPECT_EQ(matches_of("a{,x}", "a{,x}"), (Matches{"a{,x}"}));
  EXPECT_EQ(matches_of("[a[bc]]+", "xabcab"), (Matches{"abcab"}));
  EXPECT_EQ(matches_of("[^a[b]]", "abc"), (Matches{"c"}));
  EXPECT_EQ(matches_of(R"(\x41\u0042\x{43})", "ABC"), (Matches{"ABC"}));
  EXPECT_EQ(matches_of("(?i:'s)", "'s'S'\u017F"), (Matches{"'s", "'S", "'\u017F"}));
  EXPECT_EQ(matches_of(".", "a\n\u00E9"), (Matches{"a", "\u00E9"}));
}

TEST(OnigExpression, KnowsTheCharactersOfUnicode16) {
  EXPECT_EQ(matches_of(R"(\s+)", "a\u0085\u2003b\u180Ec"), (Matches{"\u0085\u2003"}));
  EXPECT_EQ(matches_of(R"(\S+)", "a\u0085\u2003b\u180Ec"), (Matches{"a", "b\u180Ec"}));
  EXPECT_EQ(matches_of(R"([\S]+)", "a\u0085b"), (Matches{"a", "b"}));
  EXPECT_EQ(matches_of(R"(\p{L}+)", "a\U000105C0\U000323AF1"), (Matches{"a\U000105C0\U000323AF"}));
  EXPECT_EQ(matches_of(R"(\p{^L}+|\P{N}+)", "a12\U00010D40"), (Matches{"a", "12\U00010D40"}));
}

TEST(OnigExpression, FindsEmptyMatchesOnceAPlace) {
  EXPECT_EQ(matches_of("a*", "baac"), (Matches{"", "aa", ""}));
  EXPECT_EQ(matches_of("(?=b)", "abb"), (Matches{"", ""}));
}

TEST(OnigExpression, RefusesWhatTheLibrariesReadDifferently) {
  for (const char* expression :
       {R"(\w+)",     R"(\d)",       R"(\b)",  R"(\h)",   R"(\K)",  R"(\1(a))", R"(\p{Han})",
        R"([\P{L}])", "[[:alpha:]]", "[a&&b]", "[a[^b]]", "(?m:.)", "a(?i)b",   "(?<name>a)",
        "a{1,2}+",    "(",           "[a",     "a{2,1}",  "[]a]",   R"(\)",     "\xFF"})
    EXPECT_THROW(OnigExpression(expression, "test"), UserError) << expression;
}

TEST(OnigExpression, GivesUpWhereItTakesTooLong) {
  const OnigExpression slow("(a*)*b|(a|a)*c", "test");
  std::vector<TextRange> matches;
  const std::string text(64, 'a');
  EXPECT_THROW(slow.find(text, {0, text.size()}, matches), UserError);
}

}  // namespace
}  // namespace shoehorn
