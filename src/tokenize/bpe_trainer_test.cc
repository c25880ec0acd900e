#include "tokenize/bpe_trainer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/test_directory.h"
#include "tokenize/bpe_tokenizer_file.h"

namespace shoehorn {
namespace {

using nlohmann::json;

const json& goldens() {
  static const json made = read_json(golden("bpe_trainer.json"));
  return made;
}

std::vector<std::string> texts_of(const json& test_case) {
  std::vector<std::string> texts;
  for (const json& name : test_case["texts"]) texts.push_back(goldens()["texts"][name.get<std::string>()]);
  return texts;
}

std::vector<std::string> every_text() {
  std::vector<std::string> texts;
  for (const json& text : goldens()["texts"]) texts.push_back(text);
  return texts;
}

BpeTrainerOptions options_of(const json& options) {
  BpeTrainerOptions result;
  result.vocab_size = options["vocab_size"];
  result.min_frequency = options.value("min_frequency", result.min_frequency);
  result.special_tokens = options.value("special_tokens", result.special_tokens);
  result.pre_tokenizer = options.value("pre_tokenizer", result.pre_tokenizer);
  result.nfc = options.value("nfc", result.nfc);
  result.all_bytes = options.value("all_bytes", result.all_bytes);
  if (options.contains("limit_alphabet")) result.limit_alphabet = options["limit_alphabet"].get<int64_t>();
  return result;
}

TrainedBpe train(const BpeTrainerOptions& options, const std::vector<std::string>& texts) {
  const auto source = text_source(texts);
  TextSource* const sources[] = {source.get()};
  return train_byte_level_bpe(options, sources);
}

std::vector<std::vector<std::string>> merges_of(const TrainedBpe& trained) {
  std::vector<std::vector<std::string>> merges;
  for (const auto& [left, right] : trained.merges)
    merges.push_back({trained.tokens[static_cast<size_t>(left)], trained.tokens[static_cast<size_t>(right)]});
  return merges;
}

class BpeTrainerGolden : public testing::TestWithParam<size_t> {};

TEST_P(BpeTrainerGolden, IsWhatTokenizersLearns) {
  const json& test_case = goldens()["cases"][GetParam()];
  BpeTrainerOptions options = options_of(test_case["options"]);
  for (const int threads : {1, 3}) {
    options.threads = threads;
    const TrainedBpe trained = train(options, texts_of(test_case));
    EXPECT_EQ(trained.tokens, test_case["tokens"].get<std::vector<std::string>>());
    EXPECT_EQ(merges_of(trained), test_case["merges"].get<std::vector<std::vector<std::string>>>());
    if (test_case.contains("file")) {
      EXPECT_EQ(tokenizer_json(trained), test_case["file"].get<std::string>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BpeTrainer, BpeTrainerGolden, testing::Range(size_t{0}, goldens()["cases"].size()));

TEST(BpeTrainer, PartsOfMergesAreEarlierTokens) {
  for (const std::string_view pre_tokenizer : byte_level_pre_tokenizers()) {
    const TrainedBpe trained = train(
        {.vocab_size = 600, .min_frequency = 1, .pre_tokenizer = std::string(pre_tokenizer)}, every_text());
    ASSERT_EQ(trained.tokens.size(), 600U);
    ASSERT_EQ(trained.merges.size(), 600U - 256U);
    for (size_t rank = 0; rank < trained.merges.size(); ++rank) {
      const auto [left, right] = trained.merges[rank];
      const size_t id = 256 + rank;
      ASSERT_LT(std::max(left, right), static_cast<int32_t>(id));
      EXPECT_EQ(trained.tokens[id],
                trained.tokens[static_cast<size_t>(left)] + trained.tokens[static_cast<size_t>(right)]);
    }
  }
}

TEST(BpeTrainer, CountsWhatItReads) {
  std::vector<BpeTrainingProgress> reports;
  const TrainedBpe trained = train({.vocab_size = 600,
                                    .special_tokens = {"<s>"},
                                    .on_progress = [&](const auto& report) { reports.push_back(report); }},
                                   {"the cat", "the\xff cat"});
  EXPECT_EQ(trained.text_bytes, 15);
  EXPECT_EQ(trained.words, 5);
  EXPECT_EQ(trained.different_words, 3);
  EXPECT_EQ(trained.invalid_utf8, 1);
  EXPECT_EQ(trained.alphabet_size, 256);
  EXPECT_EQ(trained.tokens.size(), 257U + trained.merges.size());
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports[0].done, 15);
}

// Files in pieces, and several sources one after the other, are one text.
TEST(BpeTrainer, ReadsEachSource) {
  const TestDirectory directory;
  const std::string prose = goldens()["texts"]["prose"];
  const std::string code = goldens()["texts"]["code"];
  const auto whole = open_text_file(directory.write("whole.txt", prose + code));
  const auto first = open_text_file(directory.write("first.txt", prose), 16);
  const auto second = open_text_file(directory.write("second.txt", code), 300);
  const BpeTrainerOptions options{.vocab_size = 400, .threads = 2};
  TextSource* const one[] = {whole.get()};
  TextSource* const two[] = {first.get(), second.get()};
  const TrainedBpe expected = train_byte_level_bpe(options, one);
  const TrainedBpe trained = train_byte_level_bpe(options, two);
  EXPECT_GT(trained.merges.size(), 100U);
  EXPECT_EQ(trained.tokens, expected.tokens);
  EXPECT_EQ(trained.merges, expected.merges);
  EXPECT_EQ(trained.text_bytes, static_cast<int64_t>(prose.size() + code.size()));
}

// Of the equally frequent b and c the one whose character comes first is kept.
TEST(BpeTrainer, TheAlphabetMayBeTheTexts) {
  BpeTrainerOptions options{
      .vocab_size = 3, .special_tokens = {"<s>"}, .all_bytes = false, .limit_alphabet = 2};
  EXPECT_EQ(train(options, {"aaacb"}).tokens, (std::vector<std::string>{"<s>", "a", "b"}));
  options.vocab_size = 4;
  options.limit_alphabet = 9;
  EXPECT_EQ(train(options, {"aaacb"}).tokens, (std::vector<std::string>{"<s>", "a", "b", "c"}));
}

TEST(BpeTrainer, Refusals) {
  const auto refusal = [](const BpeTrainerOptions& options, const std::vector<std::string>& texts = {"a"}) {
    return refusal_of([&] { train(options, texts); });
  };
  EXPECT_TRUE(
      contains(refusal({.vocab_size = 257, .special_tokens = {"<s>", "</s>"}}), "expected 258 or more"));
  EXPECT_TRUE(contains(refusal({.vocab_size = 1, .all_bytes = false}, {"ab"}), "expected 2 or more"));
  EXPECT_TRUE(contains(refusal({.vocab_size = int64_t{1} << 40}), "[vocab_size] expected at most"));
  EXPECT_TRUE(contains(refusal({.min_frequency = -1}), "[min_frequency]"));
  EXPECT_TRUE(contains(refusal({.special_tokens = {"<s>", "a", "<s>"}}), "'<s>' twice"));
  EXPECT_TRUE(contains(refusal({.special_tokens = {""}}), "at least one character"));
  EXPECT_TRUE(contains(refusal({.special_tokens = {"\xff"}}), "expected UTF-8"));
  EXPECT_TRUE(contains(refusal({.pre_tokenizer = "gpt4"}), "gpt2, llama3, qwen2, got 'gpt4'"));
  EXPECT_TRUE(contains(refusal({.limit_alphabet = 3}), "[limit_alphabet]"));
  EXPECT_TRUE(contains(refusal({.all_bytes = false, .limit_alphabet = 0}), "[limit_alphabet] expected 1"));
  EXPECT_TRUE(contains(refusal({.threads = 0}), "[threads]"));
  EXPECT_TRUE(contains(refusal({}, {}), "expected text"));
  EXPECT_TRUE(contains(refusal({}, {"", ""}), "expected text"));
}

}  // namespace
}  // namespace shoehorn
