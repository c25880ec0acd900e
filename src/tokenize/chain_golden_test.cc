// Chains of parts against Hugging Face's `tokenizers`: the files are made by tests/golden/chain_make.py.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "tokenize/json_node.h"
#include "tokenize/split_scanner.h"
#include "tokenize/tokenizer.h"
#include "tokenize/tokenizer_testing.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<size_t> flat(const std::vector<TextRange>& offsets) {
  std::vector<size_t> numbers;
  for (const TextRange& range : offsets) numbers.insert(numbers.end(), {range.begin, range.end});
  return numbers;
}

const Json& chain_configurations() {
  static const Json all = read_json(golden("chain_cases.json"));
  return all;
}

// A configuration of chain_cases.json, by its place there, as a directory that lives for one test.
class ChainGolden : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) / fmt::format("chain_golden_{}", ::getpid());
    fs::create_directories(dir_);
    Json file = read_json(golden("tokenizer_chains") / (configuration_["base"].get<std::string>() + ".json"));
    merge_json(file, configuration_["patch"]);
    std::ofstream(dir_ / "tokenizer.json") << file;
  }
  void TearDown() override { fs::remove_all(dir_); }

  const Json& configuration_ = chain_configurations()[GetParam()];
  fs::path dir_;
};

// GPT-2's own file is older than the type of a model.
TEST_P(ChainGolden, AnUntypedModelIsTheSame) {
  Json file = read_json(dir_ / "tokenizer.json");
  if (file["model"]["type"] != "BPE") return;  // it has merges all the same, which mean BPE
  file["model"].erase("type");
  std::ofstream(dir_ / "tokenizer.json") << file;
  const auto tokenizer = Tokenizer::load(dir_);
  for (const Json& expected : configuration_["cases"]) {
    if (text_of_case(expected, "pair")) continue;
    EXPECT_EQ(tokenizer->encode(*text_of_case(expected, "text"), expected.value("max_length", kNoTruncation))
                  .input_ids,
              expected["ids"].get<std::vector<int32_t>>())
        << expected;
  }
}

TEST_P(ChainGolden, IdsOffsetsAndDecodedText) {
  const auto tokenizer = Tokenizer::load(dir_);
  for (const Json& expected : configuration_["cases"]) {
    const std::string text = *text_of_case(expected, "text");
    const std::optional<std::string> pair = text_of_case(expected, "pair");
    const int64_t max_length = expected.value("max_length", kNoTruncation);
    const auto ids = expected["ids"].get<std::vector<int32_t>>();
    const Encoding got =
        pair ? tokenizer->encode(text, *pair, max_length) : tokenizer->encode(text, max_length);
    EXPECT_EQ(got.input_ids, ids) << expected;
    EXPECT_EQ(got.token_type_ids, expected.value("types", std::vector<int32_t>(ids.size(), 0))) << expected;
    const EncodingWithOffsets placed = tokenizer->encode_with_offsets(
        {text, pair ? std::optional<std::string_view>(*pair) : std::nullopt}, max_length);
    EXPECT_EQ(placed.encoding, got) << expected;
    EXPECT_EQ(flat(placed.offsets), expected["offsets"].get<std::vector<size_t>>()) << expected;
    const auto decoded = expected["decoded"].get<std::string>();
    EXPECT_EQ(tokenizer->decode(ids), decoded) << expected;
    EXPECT_EQ(tokenizer->decode(ids, false), expected.value("with_special", decoded)) << expected;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ChainGolden, testing::Range(size_t{0}, chain_configurations().size()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           return test_name(chain_configurations()[info.param]["name"].get<std::string>());
                         });

// Each code point alone, doubled, before and behind letters, digits, marks, white space and apostrophes.
std::string surround(int32_t code_point) {
  std::string c;
  append_utf8(code_point, c);
  return c + "a" + c + "B e\u0301\u0327" + c + c + "1" + c + " " + c + "\n" + c + "'s'" + c + " \u302E" + c +
         "\u0327\u1161\u11A8";
}

template <typename Write>
uint32_t crc_of_code_points(Write&& write) {
  uint32_t crc = 0;
  // The planes that have characters, and some of the others.
  for (int32_t c = 0; c < 0x110000; c += c < 0x32400 || (c >= 0xE0000 && c < 0xE0200) ? 1 : 256)
    if (c < 0xD800 || c >= 0xE000) crc = crc32(write(surround(c)), crc);
  return crc;
}

const fs::path kNoPath = "test";

class NormalizerGolden : public testing::TestWithParam<std::string> {};

TEST_P(NormalizerGolden, EveryCodePoint) {
  const Json section = {{"type", GetParam()}};
  const auto normalizer = read_normalizer(JsonNode(section, kNoPath, "normalizer"));
  const uint32_t crc = crc_of_code_points([&](const std::string& text) {
    AlignedText normalized;
    normalized.assign(text, 0, false);
    normalizer->normalize(normalized);
    return normalized.bytes() + "\n";
  });
  EXPECT_EQ(crc, read_json(golden("chain_hashes.json"))["normalizers"][GetParam()].get<uint32_t>());
}

INSTANTIATE_TEST_SUITE_P(Types, NormalizerGolden,
                         testing::Values("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"),
                         [](const auto& info) { return info.param; });

struct NamedSplit {
  std::string name;
  std::string section;

  friend void PrintTo(const NamedSplit& split, std::ostream* stream) { *stream << split.name; }
};

std::string regex_split(const std::string& expression) {
  const Json section = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
  return section.dump();
}

class PreTokenizerGolden : public testing::TestWithParam<NamedSplit> {};

TEST_P(PreTokenizerGolden, EveryCodePoint) {
  const Json section = Json::parse(GetParam().section);
  const auto splitter = read_pre_tokenizer(JsonNode(section, kNoPath, "pre_tokenizer"));
  PieceText pieces;
  const uint32_t crc = crc_of_code_points([&](const std::string& text) {
    pieces.text.assign(text, 0, false);
    pieces.start();
    splitter->split(pieces);
    std::string lines;
    for (size_t i = 0; i < pieces.pieces.size(); ++i) lines.append(pieces[i]).append("\n");
    return lines;
  });
  EXPECT_EQ(crc, read_json(golden("chain_hashes.json"))["pre_tokenizers"][GetParam().name].get<uint32_t>());
}

INSTANTIATE_TEST_SUITE_P(
    Types, PreTokenizerGolden,
    testing::Values(
        NamedSplit{"GPT-2", regex_split(std::string(kGpt2Expression))},
        NamedSplit{"Llama 3", regex_split(std::string(kLlama3Expression))},
        NamedSplit{"Qwen", regex_split(std::string(kQwenExpression))},
        NamedSplit{
            "other",
            regex_split(
                R"([\r\n]+|\s?+\p{L}{1,4}|\p{N}{,2}(?=\p{N})|(?<=x)[^\s\p{L}]++|^\S|\s+?$|[[!-@]\-_]+|.)")},
        NamedSplit{"Whitespace", R"({"type": "Whitespace"})"},
        NamedSplit{"WhitespaceSplit", R"({"type": "WhitespaceSplit"})"},
        NamedSplit{"Punctuation", R"({"type": "Punctuation"})"},
        NamedSplit{"Digits", R"({"type": "Digits", "individual_digits": true})"},
        NamedSplit{"BertPreTokenizer", R"({"type": "BertPreTokenizer"})"}),
    [](const auto& info) { return test_name(info.param.name); });

}  // namespace
}  // namespace shoehorn
