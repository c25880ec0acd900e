#include "base/pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr const char* kName = "bert.encoder.layer.10.attention.output.LayerNorm.weight";

bool is_found(const std::string& expression, const std::string& text = kName) {
  return Pattern(expression, "--freeze").is_found_in(text);
}

// The message with which an expression is refused, when it is read or when it is matched with `text`.
std::string refusal(const std::string& expression, const std::string& text = kName) {
  try {
    Pattern(expression, "--freeze").is_found_in(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Pattern, IsSearchedInTheText) {
  EXPECT_TRUE(is_found("LayerNorm"));
  EXPECT_TRUE(is_found(R"(layer\.[0-9]+\.attention)"));
  EXPECT_TRUE(is_found(R"(^bert\..*weight$)"));
  EXPECT_TRUE(is_found(R"(layer\.(?!9)\d+)"));
  EXPECT_TRUE(is_found("")) << "the empty expression is in every text";
  EXPECT_FALSE(is_found(R"(layer\.1\.)"));
  EXPECT_FALSE(is_found("layernorm")) << "case counts";
  EXPECT_FALSE(is_found("weight$", "weight\n")) << "$ is the end and nothing before it";
  EXPECT_TRUE(is_found("a[^]b", "a\nb")) << "[^] is any character, as in ECMAScript";
}

TEST(Pattern, WhatIsNoExpressionIsRefusedByNameAndPlace) {
  EXPECT_NE(refusal("layer(").find("[--freeze layer(] expected a regular expression, got 'missing closing"),
            std::string::npos)
      << refusal("layer(");
  EXPECT_NE(refusal("[z-a]").find("at its byte"), std::string::npos);
  EXPECT_NE(refusal("*").find("regular expression"), std::string::npos);
}

// A recursive matcher overflows its stack on the first, and takes years for the second.
TEST(Pattern, HostileExpressionsAreRefused) {
  std::string deep(5'000, '(');
  deep.append(5'000, ')');
  EXPECT_NE(refusal(deep).find("nested"), std::string::npos);
  EXPECT_NE(refusal(std::string(100'000, '(')).find("longer than"), std::string::npos);
  EXPECT_NE(refusal("(a*)*[bc]", std::string(100, 'a')).find("in 100000 steps"), std::string::npos);
  EXPECT_NE(refusal("(.*)*(.*)*[XY]$").find(kName), std::string::npos) << "it says at which text";
  EXPECT_NE(refusal("(?R)").find("[--freeze (?R)]"), std::string::npos);
  EXPECT_NE(refusal("((((a{1,999}){1,999}){1,999}){1,999})").find("regular expression"), std::string::npos);
}

// 200 groups, and one that looks back: within the limits.
TEST(Pattern, LongExpressionsWork) {
  std::string many;
  for (int i = 0; i < 200; ++i) many += "(x)|";
  EXPECT_TRUE(is_found(many + "weight"));
  EXPECT_TRUE(is_found(R"((?<=LayerNorm\.)weight)"));
}

}  // namespace
}  // namespace shoehorn
