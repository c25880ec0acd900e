#include "train/language_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments/block_arguments.h"
#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<int32_t>;

constexpr LanguageModelLimits kModel = {.max_positions = 64, .vocab_size = 400};

// Of the byte-level tokenizer of tests/golden/language_small, which tests/golden/language_make.py made.
class LanguageDataTest : public testing::Test {
 protected:
  LanguageDataTest() : tokenizer_(Tokenizer::load(golden("language_small"))) {
    args_.task = kCausalLanguageModel;
    args_.validation_split_percentage = 0;
  }

  LanguageReader reader(const LanguageModelLimits& model = kModel) const {
    return {.tokenizer = *tokenizer_,
            .model = model,
            .tokenizer_files = {golden("language_small/tokenizer.json")}};
  }
  LanguageData load(const LanguageModelLimits& model = kModel) {
    return load_language_data(args_, reader(model));
  }
  std::string refusal(const LanguageModelLimits& model = kModel) {
    return message_of<UserError>([&] { load(model); });
  }
  Ints tokens(std::string_view text) const { return tokenizer_->encode(text).input_ids; }
  // Tokens of a file of so many texts "a".
  std::string write_texts(int64_t count) const {
    std::string lines;
    for (int64_t i = 0; i < count; ++i) lines += "a\n";
    return directory_.write("a.txt", lines);
  }

  TestDirectory directory_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TrainingArguments args_;
};

// 64-bit FNV-1a over the ids of all blocks, as the golden's script has it.
std::string fnv1a(const Ints& ids) {
  uint64_t value = 0xCBF29CE484222325;
  for (const int32_t id : ids) value = (value ^ static_cast<uint32_t>(id)) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

void expect_blocks(const LanguageBlocks& blocks, const nlohmann::json& expected) {
  EXPECT_EQ(blocks.counts.texts, expected["texts"]);
  EXPECT_EQ(blocks.counts.tokens, expected["tokens"]);
  ASSERT_EQ(blocks.dataset.size(), expected["blocks"]);
  Ints all;
  for (int64_t i = 0; i < blocks.dataset.size(); ++i) {
    const Ints block = blocks.dataset.input_ids(i);
    all.insert(all.end(), block.begin(), block.end());
  }
  const auto tokens = std::min<int64_t>(8, std::ssize(all));
  EXPECT_EQ(Ints(all.begin(), all.begin() + tokens), expected["first_tokens"].get<Ints>());
  EXPECT_EQ(Ints(all.end() - tokens, all.end()), expected["last_tokens"].get<Ints>());
  EXPECT_EQ(expected["fnv1a"], fnv1a(all));
}

// From memory and from files.
TEST_F(LanguageDataTest, BlocksAreThoseOfRunClm) {
  const nlohmann::json cases = read_json(golden("language_small/run_clm.json"));
  ASSERT_GT(cases.size(), 10U);
  for (const nlohmann::json& expected : cases) {
    for (const bool is_cached : {false, true}) {
      args_.train_file = golden("language_small") / expected["file"].get<std::string>();
      args_.dataset_cache = is_cached ? (directory_.path() / "cache").string() : "";
      args_.keep_linebreaks = expected["keep_linebreaks"];
      args_.block_size = expected["block_size"].get<int64_t>();
      args_.block_remainder = "run_clm";
      args_.validation_split_percentage = expected["validation_split_percentage"].get<int64_t>();
      SCOPED_TRACE(fmt::format("{} of {}, {}% to evaluate on", expected["block_size"].dump(),
                               expected["file"].dump(), expected["validation_split_percentage"].dump()));
      const LanguageData data = load({.max_positions = 1024, .vocab_size = 400});
      expect_blocks(data.train, expected["train"]);
      if (expected.contains("validation")) expect_blocks(data.validation, expected["validation"]);
      EXPECT_EQ(data.validation.dataset.size() > 0, expected.contains("validation"));
    }
  }
  EXPECT_EQ(list_directory(directory_.path() / "cache").size(), 3U) << "one for each file and way to read it";
}

TEST_F(LanguageDataTest, BlocksHaveNextTokensAsLabels) {
  args_.train_file = directory_.write("a.txt", "the tide waits\nthe baker counts\n");
  args_.block_size = 5;
  const LanguageData data = load();
  Ints all = tokens("the tide waits\n");
  std::ranges::copy(tokens("the baker counts\n"), std::back_inserter(all));
  EXPECT_EQ(data.train.dataset.label_shape(), (LabelShape{LabelKind::kNextToken}));
  EXPECT_EQ(data.train.dataset.input_ids(0), Ints(all.begin(), all.begin() + 5));
  EXPECT_EQ(data.train.dataset.target_items(0), 4);
  EXPECT_EQ(data.train.dataset.token_count(), std::ssize(all));
  EXPECT_EQ(data.train.counts.left_over_tokens, 0) << "the last block is shorter";
  EXPECT_TRUE(contains(data.summary, fmt::format("a.txt: 2 texts: {} tokens, {} blocks of up to 5 tokens\n",
                                                 all.size(), (all.size() + 4) / 5)));
}

TEST_F(LanguageDataTest, DocumentsEndWithTheirToken) {
  args_.train_file = directory_.write("a.jsonl", "{\"text\": \"the tide\"}\n{\"text\": \"the baker\"}\n");
  args_.packing = "documents";
  args_.add_eos = true;
  const LanguageData data = load();
  ASSERT_EQ(data.train.dataset.size(), 1);
  Ints first = tokens("the tide");
  Ints all = first;
  all.push_back(tokenizer_->eos_id());
  std::ranges::copy(tokens("the baker"), std::back_inserter(all));
  all.push_back(tokenizer_->eos_id());
  EXPECT_EQ(data.train.dataset.input_ids(0), all);
  EXPECT_EQ(data.train.dataset.source().document_count(0), 2);
  EXPECT_EQ(data.train.dataset.source().document_length(0, 0), std::ssize(first) + 1);
  EXPECT_EQ(data.train.dataset.target_items(0), std::ssize(all) - 2);
  EXPECT_TRUE(contains(data.summary, fmt::format("1 block of up to 64 tokens, {} on average", all.size())));
}

TEST_F(LanguageDataTest, NothingIsLeftOutInSilence) {
  args_.train_file = write_texts(25);
  const int64_t tokens_of_a_text = std::ssize(tokens("a\n"));
  ASSERT_EQ(tokens_of_a_text, 2);
  args_.block_size = 15;
  args_.block_remainder = "drop";
  args_.max_train_samples = 2;
  EXPECT_TRUE(
      contains(load().summary,
               "a.txt: 25 texts: 50 tokens, 2 blocks of 15 tokens; 5 tokens left over at the end are not "
               "used; 1 block behind the first 2 (--max_train_samples) is not used\n"));
  args_.block_remainder = "run_clm";
  EXPECT_TRUE(contains(load().summary, "5 tokens left over from each 1,000 texts are not used"));
  args_.block_remainder = "keep";
  args_.packing = "documents";
  args_.train_file = directory_.write("b.csv", "text\n\"\"\n" + std::string(40, 'z') + "\n");
  EXPECT_TRUE(
      contains(load().summary, "1 text longer than a block is cut into several; 1 text has no token"));
  EXPECT_TRUE(contains(load().summary, "b.csv: 2 texts, column text: "));
}

TEST_F(LanguageDataTest, TheFirstTextsAreToEvaluateOn) {
  args_.train_file = write_texts(50);
  args_.block_size = 2;
  args_.validation_split_percentage = 5;
  LanguageData data = load();
  EXPECT_EQ(data.validation.dataset.size(), 2) << "2.5 is halfway, and 2 is even";
  EXPECT_EQ(data.train.dataset.size(), 48);
  EXPECT_TRUE(
      contains(data.summary, "a.txt: all but the first 2 of 50 texts: 96 tokens, 48 blocks of 2 tokens\n"));
  EXPECT_TRUE(
      contains(data.summary, "a.txt: the first 2 of 50 texts, to evaluate on: 4 tokens, 2 blocks of 2"));
  args_.max_eval_samples = 1;
  EXPECT_EQ(load().validation.dataset.size(), 1);
  args_.do_eval = false;
  data = load();
  EXPECT_EQ(data.validation.dataset.size(), 0);
  EXPECT_EQ(data.train.dataset.size(), 48) << "the same, evaluated or not";
  args_.do_eval = {};
  args_.validation_file = directory_.write("dev.txt", "a\na\na\n");
  args_.max_eval_samples = {};
  data = load();
  EXPECT_EQ(data.validation.dataset.size(), 3);
  EXPECT_EQ(data.train.dataset.size(), 50);
  args_.validation_file.clear();
  args_.train_file = write_texts(9);
  data = load();
  EXPECT_EQ(data.validation.dataset.size(), 0);
  EXPECT_TRUE(contains(data.notices, "5 percent of the texts are no block, and nothing is evaluated"));
}

// Files, or what a pattern finds, each cut on its own; from memory and from shards the same.
TEST_F(LanguageDataTest, FilesAreMixedByWeight) {
  directory_.write("a1.txt", "a\na\na\n");
  directory_.write("a2.txt", "a\n");
  const std::string b = directory_.write("b.txt", "the tide\nwaits for the baker\nagain and again\n");
  args_.train_file = (directory_.path() / "a*.txt").string() + "," + b;
  args_.train_file_weights = {"1", "3"};
  args_.block_size = 4;
  std::vector<std::string> hashes;
  for (const bool is_cached : {false, true}) {
    args_.dataset_cache = is_cached ? (directory_.path() / "cache").string() : "";
    const LanguageData data = load();
    const Dataset& train = data.train.dataset;
    const Mixture* mixture = train.source().mixture();
    ASSERT_NE(mixture, nullptr);
    ASSERT_EQ(mixture->sets(), 2);
    EXPECT_EQ(mixture->set(0).samples, 2) << "8 tokens of both files of the pattern";
    EXPECT_EQ(mixture->share(1), 0.75);
    EXPECT_EQ(train.size(), 2 + mixture->set(1).samples);
    EXPECT_EQ(train.label_kind(), LabelKind::kNextToken);
    Ints first = tokens("a\n");
    const Ints second = first;
    std::ranges::copy(second, std::back_inserter(first));
    EXPECT_EQ(train.input_ids(0), first);
    EXPECT_EQ(train.input_ids(2).front(), tokens("the tide\n").front()) << "the first block of b.txt";
    EXPECT_TRUE(contains(
        data.summary,
        fmt::format(
            "mixed by weight, {} blocks an epoch (until the first file is used up): 25.00% {}, 75.00% {}\n",
            mixture->epoch_size(), mixture->set(0).name, b)));
    hashes.push_back(train.content_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(list_directory(directory_.path() / "cache").size(), 2U) << "a data set for each name";
}

TEST_F(LanguageDataTest, EachMixedFileIsSplit) {
  args_.train_file =
      write_texts(40) + "," + directory_.write("b.txt", "a\na\na\na\na\na\na\na\na\na\n").string();
  args_.train_file_weights = {"1", "1"};
  args_.stopping_strategy = "all_exhausted";
  args_.block_size = 2;
  args_.validation_split_percentage = 10;
  LanguageData data = load();
  EXPECT_EQ(data.validation.dataset.size(), 4 + 1);
  EXPECT_EQ(data.validation.dataset.source().mixture(), nullptr) << "each is evaluated on once";
  EXPECT_EQ(data.train.dataset.size(), 36 + 9);
  EXPECT_EQ(data.train.counts.blocks, 36 + 9);
  EXPECT_TRUE(contains(data.summary, "(until all files have been used up): 50.00% "));
  args_.max_eval_samples = 3;
  EXPECT_EQ(load().validation.dataset.size(), 3);
  args_.max_eval_samples = {};
  args_.validation_file = write_texts(3);
  EXPECT_EQ(load().validation.dataset.size(), 3);
}

TEST_F(LanguageDataTest, AMixtureHasAWeightForEachName) {
  args_.train_file = write_texts(3);
  args_.train_file_weights = {"0.7", "0.3"};
  EXPECT_EQ(refusal(),
            "[train_file_weights] expected 1 number, one for each name in --train_file, got 2: 0.7, 0.3");
  args_.train_file_weights = {"1"};
  EXPECT_EQ(load().train.dataset.epoch_size(), 1) << "one file is a mixture, too";
}

TEST_F(LanguageDataTest, AFlippedByteInAShardOfAMixtureIsAnError) {
  args_.train_file = write_texts(30) + "," + directory_.write("b.txt", "the tide\nwaits\n").string();
  args_.train_file_weights = {"1", "2"};
  args_.dataset_cache = (directory_.path() / "cache").string();
  load();
  for (const std::string& key : list_directory(args_.dataset_cache)) {
    const fs::path shard = fs::path(args_.dataset_cache) / key / "shard-00000.tokens";
    const std::string content = read_text_file(shard);
    std::string damaged = content;
    damaged[content.size() / 2] = static_cast<char>(damaged[content.size() / 2] ^ 1);
    directory_.write("cache/" + key + "/shard-00000.tokens", damaged);
    EXPECT_TRUE(contains(refusal(), "shard-00000.tokens")) << key;
    directory_.write("cache/" + key + "/shard-00000.tokens", content);
  }
  EXPECT_NO_THROW(load());
}

TEST_F(LanguageDataTest, BlockSizeIsWhatModelAndTokenizerTake) {
  const auto fitted = [&](std::optional<int64_t> given, int64_t positions) {
    args_.block_size = given;
    const std::string notice =
        fit_block_size(args_, {.max_positions = positions, .vocab_size = 400}, tokenizer_.get());
    return std::pair(*args_.block_size, notice);
  };
  using Fitted = std::pair<int64_t, std::string>;
  ASSERT_EQ(tokenizer_->model_max_length(), 128);
  EXPECT_EQ(fitted({}, 64), Fitted(64, ""));
  EXPECT_EQ(fitted({}, 512), Fitted(128, ""));
  EXPECT_EQ(fitted(40, 64), Fitted(40, ""));
  EXPECT_EQ(fitted(100, 64),
            Fitted(64, "block_size: 64 tokens in place of 100: the model has no more positions\n"));
  EXPECT_EQ(fitted(200, 512),
            Fitted(128, "block_size: 128 tokens in place of 200: the tokenizer's model_max_length\n"));
  args_.block_size = {};
  EXPECT_EQ(fit_block_size(args_, {.max_positions = 32768}, nullptr),
            "block_size: 1024 tokens, where the model takes up to 32768; --block_size gives another\n");
  EXPECT_EQ(args_.block_size, 1024);
  // A model whose positions go on beyond its config's takes more where it is asked to.
  const LanguageModelLimits extended = {.max_positions = 32768, .max_position_embeddings = 64};
  args_.block_size = {};
  EXPECT_EQ(fit_block_size(args_, extended, nullptr), "");
  EXPECT_EQ(args_.block_size, 64);
  args_.block_size = 4096;
  EXPECT_EQ(fit_block_size(args_, extended, nullptr), "");
  EXPECT_EQ(args_.block_size, 4096);
}

TEST_F(LanguageDataTest, RefusesWhatCannotBeTrainedOn) {
  args_.train_file = write_texts(3);
  EXPECT_TRUE(contains(refusal({.max_positions = 64, .vocab_size = 70}),
                       "a.txt] expected token ids below 70, the model's vocabulary, got"));
  args_.block_size = 7;
  args_.block_remainder = "drop";
  EXPECT_TRUE(
      contains(refusal(), "a.txt] expected texts of at least one block of 7 tokens, got 6 tokens in"));
  args_.block_size = {};
  args_.block_remainder = "keep";
  args_.train_file = directory_.write("empty.txt", "");
  EXPECT_TRUE(contains(refusal(), "empty.txt] expected lines of text, got an empty file"));
  args_.train_file = directory_.write("a.csv", "text\none\n");
  args_.text_column_names = {"body"};
  EXPECT_TRUE(contains(refusal(), "[text_column_names] expected a column of"));
  args_.text_column_names = {};
  args_.add_eos = true;
  const auto without_end = Tokenizer::load(golden("tokenizer_small"));
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { load_language_data(args_, {.tokenizer = *without_end, .model = kModel}); }),
      "[add_eos] expected a tokenizer with an end token, got one that names none"));
}

}  // namespace
}  // namespace shoehorn
