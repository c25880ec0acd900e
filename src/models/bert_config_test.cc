#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "models/bert.h"

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
  EXPECT_EQ(read({{"pad_token_id", -1}, {"vocab_size", 100}}).pad_token_id, 99)
      << "PyTorch's table takes it so";
  EXPECT_TRUE(is_refused({{"pad_token_id", "[PAD]"}}, "'pad_token_id' to be null, -1 or a token"));
  EXPECT_TRUE(is_refused({{"pad_token_id", -2}}, "got -2"));
  EXPECT_TRUE(is_refused({{"pad_token_id", 100}, {"vocab_size", 100}}, "from 0 to 99"));
}

// As transformers has it: problem_type, or what the number of labels says.
TEST(BertConfigTest, ProblemTypes) {
  const auto problem = [](const json& config) { return read(config).labels.problem; };
  EXPECT_EQ(problem(json::object()), ProblemType::kSingleLabel);
  EXPECT_EQ(problem({{"problem_type", nullptr}, {"num_labels", 3}}), ProblemType::kSingleLabel);
  EXPECT_EQ(problem({{"num_labels", 1}}), ProblemType::kRegression);
  EXPECT_EQ(problem({{"id2label", {{"0", "score"}}}}), ProblemType::kRegression);
  EXPECT_EQ(problem({{"problem_type", "regression"}, {"num_labels", 3}}), ProblemType::kRegression);
  EXPECT_EQ(problem({{"problem_type", "multi_label_classification"}, {"num_labels", 1}}),
            ProblemType::kMultiLabel);
  EXPECT_TRUE(
      is_refused({{"problem_type", "ranking"}}, "'problem_type' to be null, single_label_classification"));
  EXPECT_TRUE(is_refused({{"problem_type", 1}}, "got 1"));
  EXPECT_TRUE(is_refused({{"problem_type", "single_label_classification"}, {"num_labels", 1}},
                         "[config.json] expected from 2 to 1048576 labels"));
}

TEST(BertConfigTest, AModelTakesAnotherProblem) {
  BertForSequenceClassification model(BertConfig{});
  EXPECT_EQ(parse_json(model.config_json(), "config.json")["problem_type"], "single_label_classification");
  EXPECT_FALSE(parse_json(model.config_json(), "config.json").contains("id2label"))
      << "names that anybody would give";
  model.set_labels({.problem = ProblemType::kRegression, .names = {"score"}});
  EXPECT_EQ(model.num_labels(), 1);
  const json written = parse_json(model.config_json(), "config.json");
  EXPECT_EQ(written["problem_type"], "regression");
  EXPECT_EQ(written["id2label"], json({{"0", "score"}}));
  EXPECT_EQ(read(written).labels.problem, ProblemType::kRegression);
  BertConfig config;
  config.labels = classes(5);
  EXPECT_EQ(parse_json(BertForSequenceClassification(config).config_json(), "config.json")["id2label"].size(),
            5U);
}

// The bytes of any model that is read fit 63 bits.
TEST(BertConfigTest, SizesHaveBounds) {
  EXPECT_EQ(read({{"hidden_size", 1 << 20}, {"num_attention_heads", 64}}).hidden_size, 1 << 20);
  EXPECT_TRUE(is_refused({{"hidden_size", (1 << 20) + 1}}, "from 1 to 1048576"));
  EXPECT_TRUE(is_refused({{"vocab_size", int64_t{1} << 31}}, "'vocab_size'"));
  EXPECT_TRUE(is_refused({{"num_hidden_layers", 257}}, "from 1 to 256"));
  EXPECT_TRUE(is_refused({{"num_hidden_layers", 0}}, "got 0"));
}

TEST(BertConfigTest, NumbersOfLabelsHaveBounds) {
  EXPECT_TRUE(is_refused({{"num_labels", 0}}, "'num_labels'"));
  EXPECT_TRUE(is_refused({{"num_labels", 1 << 21}}, "'num_labels'"));
  BertConfig config;
  config.labels = classes(1);
  EXPECT_THROW(BertForSequenceClassification{config}, UserError);
  BertForSequenceClassification model(BertConfig{});
  EXPECT_THROW(model.set_labels({.names = {"only"}}), UserError);
  EXPECT_THROW(model.set_labels({.names = {"up", "\xff"}}), UserError);
  EXPECT_EQ(model.num_labels(), 2) << "as before";
}

// run_glue writes the labels of its training file as they are.
TEST(BertConfigTest, NamesOfClassesMayBeNumbersAndBooleans) {
  const auto labels = [](const json& id2label) {
    const json config = {{"id2label", id2label}};
    return BertForSequenceClassification(read(config), config.dump()).labels();
  };
  EXPECT_EQ(labels({{"0", 0}, {"1", 1}}), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(labels({{"0", false}, {"1", true}}), (std::vector<std::string>{"false", "true"}));
  EXPECT_EQ(labels({{"0", "b"}, {"1", "a"}}), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(labels({{"0", "a"}, {"1", "a"}}), (std::vector<std::string>{"a", "a"}))
      << "refused where it is used";
  EXPECT_TRUE(is_refused({{"id2label", {{"0", 0.5}, {"1", 1}}}}, "to be texts, got 0.5"));
  EXPECT_TRUE(is_refused({{"id2label", {{"0", nullptr}, {"1", "a"}}}}, "to be texts"));
  EXPECT_TRUE(is_refused({{"id2label", {{"1", "a"}, {"2", "b"}}}}, "a name for \"0\""));
  EXPECT_TRUE(is_refused({{"id2label", {"a", "b"}}}, "'id2label'"));
}

TEST(BertConfigTest, ClassesContradictNothing) {
  const json names = {{"0", "down"}, {"1", "up"}};
  EXPECT_EQ(read({{"id2label", names}, {"num_labels", 2}}).labels.num_labels(), 2);
  EXPECT_TRUE(is_refused({{"id2label", names}, {"num_labels", 3}}, "got 3 and 2"));
  EXPECT_EQ(read({{"id2label", names}, {"label2id", {{"down", 0}, {"up", "1"}}}}).labels.num_labels(), 2);
  EXPECT_EQ(read({{"id2label", names}, {"label2id", {{"LABEL_0", 0}, {"LABEL_1", 1}}}}).labels.num_labels(),
            2)
      << "left over from another model, and not used";
  EXPECT_TRUE(
      is_refused({{"id2label", names}, {"label2id", {{"down", 1}, {"up", 0}}}}, "inverse of 'id2label'"));
}

}  // namespace
}  // namespace shoehorn
