#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/bert.h"

namespace shoehorn {
namespace {

using nlohmann::json;

BertConfig read(const json& config) {
  return BertConfig::from_json(config, "config.json");
}
// Whether it is refused in these words.
bool is_refused(const json& config, const std::string& words) {
  try {
    read(config);
  } catch (const UserError& error) {
    return std::string(error.what()).find(words) != std::string::npos;
  }
  return false;
}

TEST(BertConfigTest, PaddingIsAToken) {
  EXPECT_EQ(read(json::object()).pad_token_id, 0);
  EXPECT_EQ(read({{"pad_token_id", 7}}).pad_token_id, 7);
  EXPECT_EQ(read({{"pad_token_id", nullptr}}).pad_token_id, -1) << "none";
  EXPECT_TRUE(is_refused({{"pad_token_id", "[PAD]"}}, "'pad_token_id' to be null or a token"));
  EXPECT_TRUE(is_refused({{"pad_token_id", -1}}, "got -1"));
  EXPECT_TRUE(is_refused({{"pad_token_id", 100}, {"vocab_size", 100}}, "from 0 to 99"));
}

TEST(BertConfigTest, OtherProblemsAreRefused) {
  EXPECT_EQ(read({{"problem_type", nullptr}}).num_labels, 2);
  EXPECT_EQ(read({{"problem_type", "single_label_classification"}}).num_labels, 2);
  EXPECT_TRUE(is_refused({{"problem_type", "regression"}}, "got \"regression\""));
  EXPECT_TRUE(is_refused({{"problem_type", "multi_label_classification"}}, "'problem_type'"));
}

// The bytes of any model that is read fit 63 bits.
TEST(BertConfigTest, SizesHaveBounds) {
  EXPECT_EQ(read({{"hidden_size", 1 << 20}, {"num_attention_heads", 64}}).hidden_size, 1 << 20);
  EXPECT_TRUE(is_refused({{"hidden_size", (1 << 20) + 1}}, "from 1 to 1048576"));
  EXPECT_TRUE(is_refused({{"vocab_size", int64_t{1} << 31}}, "'vocab_size'"));
  EXPECT_TRUE(is_refused({{"num_hidden_layers", 10'001}}, "from 1 to 10000"));
  EXPECT_TRUE(is_refused({{"num_hidden_layers", 0}}, "got 0"));
}

}  // namespace
}  // namespace shoehorn
