// Against transformers' AutoTokenizer: the goldens are made by tests/golden/vocab_merges_make.py.
#include "tokenize/vocab_merges_files.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "tokenize/tokenizer.h"
#include "tokenize/tokenizer_testing.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const Json& class_configurations() {
  static const Json all = read_json(golden("vocab_merges.json"));
  return all;
}

class VocabMerges : public testing::Test {
 protected:
  VocabMerges() : model_(read_json(golden("tokenizer_chains/bytes.json"))["model"]) {
    for (const Json& merge : model_["merges"])
      merges_ += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }

  void write_files(const Json& more_tokens, const Json& beside) {
    Json vocab = model_["vocab"];
    for (const Json& token : more_tokens) {
      const std::string content = token.get<std::string>();
      if (!vocab.contains(content)) vocab[content] = vocab.size();
    }
    directory_.write("vocab.json", vocab.dump());
    directory_.write("merges.txt", merges_);
    for (const auto& [name, content] : beside.items()) directory_.write(name, content.dump());
  }
  void write_gpt2() { write_files(Json::array(), {{"config.json", {{"model_type", "gpt2"}}}}); }

  TokenizerSideFiles side_files() const { return TokenizerSideFiles(directory_.path()); }

  std::string refusal() const {
    return message_of<UserError>([&] { Tokenizer::load(directory_.path()); });
  }

  const TestDirectory directory_;
  Json model_;
  std::string merges_ = "#version: 0.2\n";
};

class VocabMergesGolden : public VocabMerges, public testing::WithParamInterface<size_t> {
 protected:
  VocabMergesGolden() { write_files(configuration_["vocab"], configuration_["files"]); }

  void expect_cases(const Tokenizer& tokenizer) const {
    for (const Json& expected : configuration_["cases"]) {
      const std::string text = *text_of_case(expected, "text");
      const std::optional<std::string> pair = text_of_case(expected, "pair");
      const auto ids = expected["ids"].get<std::vector<int32_t>>();
      const EncodingWithOffsets got =
          tokenizer.encode_with_offsets({text, pair ? std::optional<std::string_view>(*pair) : std::nullopt});
      EXPECT_EQ(pair ? tokenizer.encode(text, *pair) : tokenizer.encode(text), got.encoding) << expected;
      EXPECT_EQ(got.encoding.input_ids, ids) << expected;
      EXPECT_EQ(got.encoding.token_type_ids, expected.value("types", std::vector<int32_t>(ids.size(), 0)))
          << expected;
      std::vector<size_t> offsets;
      for (const TextRange& range : got.offsets) offsets.insert(offsets.end(), {range.begin, range.end});
      EXPECT_EQ(offsets, expected["offsets"].get<std::vector<size_t>>()) << expected;
      EXPECT_EQ(tokenizer.decode(ids), expected["decoded"].get<std::string>()) << expected;
      EXPECT_EQ(tokenizer.decode(ids, false), expected["with_special"].get<std::string>()) << expected;
    }
  }

  const Json& configuration_ = class_configurations()[GetParam()];
};

TEST_P(VocabMergesGolden, IdsOffsetsAndDecodedText) {
  expect_cases(*Tokenizer::load(directory_.path()));
}

// What a saved model's directory gets, without the vocabulary and its merges, which are those that were read.
TEST_P(VocabMergesGolden, TheDocumentIsTransformers) {
  Json document = parse_json(read_vocab_and_merges(side_files()).tokenizer_json, "document");
  EXPECT_EQ(document["model"]["merges"], model_["merges"]);
  EXPECT_EQ(document["model"]["continuing_subword_prefix"], "");
  document.erase("model");
  EXPECT_EQ(document, configuration_["document"]);
}

TEST_P(VocabMergesGolden, TheSavedDirectoryHasTheSameIds) {
  write_text_atomic(directory_.path() / "tokenizer.json", read_vocab_and_merges(side_files()).tokenizer_json);
  EXPECT_FALSE(has_vocab_and_merges(side_files()));
  expect_cases(*Tokenizer::load(directory_.path()));
}

INSTANTIATE_TEST_SUITE_P(Classes, VocabMergesGolden, testing::Range(size_t{0}, class_configurations().size()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           return test_name(class_configurations()[info.param]["name"].get<std::string>());
                         });

// Counted by the openings that the kernel tells of.
TEST_F(VocabMerges, EachFileIsReadOnce) {
  write_files(Json::array(), {{"config.json", {{"model_type", "gpt2"}}},
                              {"tokenizer_config.json", Json::object()},
                              {"special_tokens_map.json", Json::object()},
                              {"added_tokens.json", Json::object()}});
  const FileDescriptor events(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(events.get(), 0);
  // The kernel joins equal events that follow each other: closings come between openings.
  ASSERT_GE(inotify_add_watch(events.get(), directory_.path().c_str(), IN_OPEN | IN_CLOSE), 0);
  Tokenizer::load(directory_.path());
  std::map<std::string, int> openings;
  alignas(inotify_event) std::array<char, 1 << 16> buffer{};
  const ssize_t bytes = ::read(events.get(), buffer.data(), buffer.size());
  for (ssize_t at = 0; at < bytes;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
    if ((event->mask & IN_OPEN) != 0 && event->len > 0) ++openings[event->name];
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  const std::map<std::string, int> once = {
      {"added_tokens.json", 1},       {"config.json", 1},           {"merges.txt", 1},
      {"special_tokens_map.json", 1}, {"tokenizer_config.json", 1}, {"vocab.json", 1}};
  EXPECT_EQ(openings, once);
}

TEST_F(VocabMerges, OtherClassesAreRefusedByName) {
  write_files(Json::array(), {{"tokenizer_config.json", {{"tokenizer_class", "CLIPTokenizer"}}}});
  EXPECT_FALSE(has_vocab_and_merges(side_files()));
  EXPECT_TRUE(contains(refusal(), "RobertaTokenizer")) << refusal();
  EXPECT_TRUE(contains(refusal(), "got CLIPTokenizer; transformers makes a tokenizer.json"));
  write_files(Json::array(), {{"tokenizer_config.json", Json::object()}});
  EXPECT_TRUE(contains(refusal(), "got neither")) << refusal();
  write_files(Json::array(), {{"config.json", {{"model_type", "whisper"}}}});
  EXPECT_TRUE(contains(refusal(), "got that of model_type whisper")) << refusal();
}

TEST_F(VocabMerges, MalformedVocabularies) {
  write_gpt2();
  EXPECT_TRUE(has_vocab_and_merges(side_files()));
  EXPECT_NO_THROW(Tokenizer::load(directory_.path()));
  const auto refusal_of = [&](const std::string& text) {
    directory_.write("vocab.json", text);
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, "vocab.json")) << message;
    return message;
  };
  const std::string whole = model_["vocab"].dump();
  EXPECT_TRUE(contains(refusal_of(whole.substr(0, whole.size() / 2)), "expected JSON"));
  EXPECT_TRUE(contains(refusal_of("[1, 2]"), "expected an object of tokens and ids"));
  EXPECT_TRUE(contains(refusal_of("7"), "expected an object of tokens and ids"));
  EXPECT_TRUE(contains(refusal_of(R"({"a": -1})"), "expected the id of 'a' to be in 0..8388607, got -1"));
  EXPECT_TRUE(contains(refusal_of(R"({"a": [1]})"), "got an array or object"));
  EXPECT_TRUE(contains(refusal_of(R"({"a": 1.5})"), "got 1.5"));
  EXPECT_TRUE(contains(refusal_of(R"({"a": 8388608})"), "got 8388608"));
  EXPECT_TRUE(contains(refusal_of(R"({"a": 1, "b": 1})"), "expected each id once, got 1 for 'a' and 'b'"));
  EXPECT_TRUE(contains(refusal_of(R"({"a": 1, "a": 2})"), "expected each token once, got 'a' twice"));
  EXPECT_TRUE(contains(refusal_of("{}"), "got none for 256 of them (0x00, …)"));
  Json lacks = model_["vocab"];
  lacks.erase("!");
  EXPECT_TRUE(contains(refusal_of(lacks.dump()), "got none for 1 of them (0x21, …)"));
}

TEST_F(VocabMerges, MalformedMerges) {
  write_gpt2();
  const auto refusal_of = [&](const std::string& text) {
    directory_.write("merges.txt", text);
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, "merges.txt")) << message;
    return message;
  };
  EXPECT_TRUE(contains(refusal_of(merges_ + "x"), "expected two tokens with a space between them, got 'x'"));
  EXPECT_TRUE(contains(refusal_of("#version: 0.2\na b c\n"), "merges.txt:2] expected two tokens"));
  EXPECT_TRUE(contains(refusal_of("#version: 0.2\n\n"), "merges.txt:2] expected two tokens"));
  EXPECT_TRUE(
      contains(refusal_of("#version: 0.2\na nonsense\n"), "got 'a nonsense', whose 'nonsense' is none"));
  EXPECT_TRUE(contains(refusal_of("~ ~\n"), "merges.txt:1] expected a merge"));
  EXPECT_TRUE(contains(refusal_of("a \xff\n"), "expected UTF-8"));
  std::filesystem::remove(directory_.path() / "merges.txt");
  EXPECT_TRUE(contains(refusal(), "merges.txt"));
}

TEST_F(VocabMerges, AddedTokensWhoseIdsAreElsewhere) {
  const Json plain = {{"content", "<x>"}};
  const auto refusal_of = [&](const Json& config) {
    write_files(Json::array(),
                {{"config.json", {{"model_type", "qwen2"}}}, {"tokenizer_config.json", config}});
    return refusal();
  };
  EXPECT_TRUE(contains(refusal_of({{"added_tokens_decoder", {{"9999", plain}}}}),
                       "expected the added token '<x>' to have the id 700, got 9999"));
  EXPECT_TRUE(contains(refusal_of({{"added_tokens_decoder", {{"x", plain}}}}), "'x' is none"));
  EXPECT_TRUE(contains(refusal_of({{"added_tokens_decoder", {1}}}), "an object of ids and tokens"));
  EXPECT_TRUE(contains(refusal_of({{"image_token", "<image>"}}), "image_token"));
  EXPECT_TRUE(contains(refusal_of({{"extra_special_tokens", {{"image_token", "<image>"}}}}), "image_token"));
  EXPECT_TRUE(contains(refusal_of({{"tokenizer_class", "RobertaTokenizer"}, {"sep_token", nullptr}}),
                       "expected a sep_token and a cls_token"));
}

}  // namespace
}  // namespace shoehorn
