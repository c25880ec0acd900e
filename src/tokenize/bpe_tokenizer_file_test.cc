#include "tokenize/bpe_tokenizer_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/test_directory.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {
namespace {

const std::vector<std::string>& texts() {
  static const std::vector<std::string> made = [] {
    std::vector<std::string> all;
    const nlohmann::json goldens = read_json(golden("bpe_trainer.json"));
    for (const nlohmann::json& text : goldens["texts"]) all.push_back(text);
    return all;
  }();
  return made;
}

TrainedBpe train(const BpeTrainerOptions& options) {
  const auto source = text_source(texts());
  TextSource* const sources[] = {source.get()};
  return train_byte_level_bpe(options, sources);
}

// With all bytes in the alphabet every text comes back, also one that was not trained on.
TEST(BpeTokenizerFile, TextsComeBack) {
  for (const std::string_view pre_tokenizer : byte_level_pre_tokenizers()) {
    const TestDirectory directory;
    const TrainedBpe trained = train({.vocab_size = 500,
                                      .special_tokens = {"<s>", "<|endoftext|>"},
                                      .pre_tokenizer = std::string(pre_tokenizer)});
    save_tokenizer(directory.path() / "new", trained, {});
    const auto tokenizer = Tokenizer::load(directory.path() / "new");
    EXPECT_EQ(tokenizer->vocab_size(), 500);
    EXPECT_EQ(tokenizer->id_of("<|endoftext|>"), 1);
    std::vector<std::string> all = texts();
    all.emplace_back("\u0950 Zzyzx \x01\x7f\r\n  \U0001f980<|endoftext|>\u2028");
    for (const std::string& text : all) {
      const Encoding encoded = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(encoded.input_ids, false), text);
      EXPECT_LT(encoded.input_ids.size(), text.size()) << "merges shorten a text";
    }
  }
}

// As it was trained, with NFC before.
TEST(BpeTokenizerFile, TheNormalizerIsThere) {
  const TestDirectory directory;
  save_tokenizer(directory.path(), train({.vocab_size = 300, .pre_tokenizer = "qwen2", .nfc = true}), {});
  const auto tokenizer = Tokenizer::load(directory.path());
  EXPECT_EQ(tokenizer->encode("e\u0301").input_ids, tokenizer->encode("\u00e9").input_ids);
}

TEST(BpeTokenizerFile, RolesOfSpecialTokens) {
  const TestDirectory directory;
  const TrainedBpe trained = train({.vocab_size = 300, .special_tokens = {"<s>", "</s>", "<pad>"}});
  save_tokenizer(directory.path(), trained,
                 {.bos_token = "<s>", .eos_token = "</s>", .pad_token = "<pad>", .model_max_length = 77});
  const nlohmann::json config = read_json(directory.path() / "tokenizer_config.json");
  EXPECT_EQ(config, (nlohmann::json{{"bos_token", "<s>"},
                                    {"eos_token", "</s>"},
                                    {"pad_token", "<pad>"},
                                    {"model_max_length", 77},
                                    {"clean_up_tokenization_spaces", false},
                                    {"tokenizer_class", "PreTrainedTokenizerFast"}}));
  const auto tokenizer = Tokenizer::load(directory.path());
  EXPECT_EQ(tokenizer->pad_id(), 2);
  EXPECT_EQ(tokenizer->model_max_length(), 77);
  EXPECT_TRUE(contains(refusal_of([&] { save_tokenizer(directory.path(), trained, {.eos_token = "<end>"}); }),
                       "[eos_token] expected one of the special tokens <s>, </s>, <pad>, got '<end>'"));
}

TEST(BpeTokenizerFile, AnotherTokenizerIsReplaced) {
  const TestDirectory directory;
  EXPECT_TRUE(tokenizer_files_in(directory.path()).empty());
  directory.write("vocab.txt", "[UNK]\n");
  directory.write("special_tokens_map.json", "{}");
  directory.write("config.json", "{}");
  EXPECT_EQ(tokenizer_files_in(directory.path()),
            (std::vector<std::string>{"special_tokens_map.json", "vocab.txt"}));
  save_tokenizer(directory.path(), train({.vocab_size = 300}), {});
  EXPECT_EQ(tokenizer_files_in(directory.path()),
            (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json"}));
  EXPECT_TRUE(path_exists(directory.path() / "config.json"));
}

}  // namespace
}  // namespace shoehorn
