#include "generate/end_tokens.h"

#include <gtest/gtest.h>

#include "base/error_testing.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

using Tokens = std::vector<int32_t>;

class EndTokens : public testing::Test {
 protected:
  Tokens of_config(const std::string& config) {
    directory_.write("config.json", config);
    return end_tokens_of(directory_.path(), 100);
  }

  TestDirectory directory_;
};

TEST_F(EndTokens, AreThoseOfTheGenerationConfigFirst) {
  EXPECT_EQ(of_config(R"({"eos_token_id": 2})"), (Tokens{2}));
  EXPECT_EQ(of_config(R"({"eos_token_id": [2, 7]})"), (Tokens{2, 7}));
  EXPECT_EQ(of_config(R"({"eos_token_id": null})"), Tokens());
  EXPECT_EQ(of_config("{}"), Tokens());
  directory_.write("generation_config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(of_config(R"({"eos_token_id": 2})"), (Tokens{5}));
  directory_.write("generation_config.json", "{}");
  EXPECT_EQ(of_config(R"({"eos_token_id": 2})"), (Tokens{2}));
}

TEST_F(EndTokens, BeyondTheVocabularyAreNeverReached) {
  EXPECT_EQ(of_config(R"({"eos_token_id": 50256})"), Tokens());
  EXPECT_EQ(of_config(R"({"eos_token_id": [99, 100, 4294967297]})"), (Tokens{99}));
}

// A wrapped or overlooked number would be another token, or none: texts without an end, and nobody knows why.
TEST_F(EndTokens, AnythingElseIsRefusedByName) {
  for (const char* value :
       {"-1", "1.5", "\"</s>\"", "true", "{}", "[1, \"</s>\"]", "[[1]]", "9223372036854775808"}) {
    const std::string config = std::string(R"({"eos_token_id": )") + value + "}";
    const std::string message = message_of<UserError>([&] { of_config(config); });
    EXPECT_TRUE(contains(message, "config.json] expected 'eos_token_id'"));
  }
  directory_.write("generation_config.json", "[2]");
  EXPECT_TRUE(contains(message_of<UserError>([&] { of_config("{}"); }), "generation_config.json"));
}

}  // namespace
}  // namespace shoehorn
