// Against Hugging Face's `tokenizers`: the files are made by tests/golden/tokenizer_make.py.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "io/test_directory.h"
#include "tokenize/bert_normalizer.h"
#include "tokenize/tokenizer.h"
#include "tokenize/tokenizer_testing.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(TokenizerGolden, EveryConfiguration) {
  const fs::path dir = fs::path(testing::TempDir()) / fmt::format("tokenizer_golden_{}", ::getpid());
  fs::create_directories(dir);
  for (const Json& configuration : Json::parse(read(golden("tokenizer_cases.json")))) {
    SCOPED_TRACE(configuration["name"].get<std::string>());
    Json file = Json::parse(read(golden("tokenizer_small/tokenizer.json")));
    merge_json(file, configuration["patch"]);
    // Keys come out sorted, so this also reads a vocabulary whose ids are not in order.
    std::ofstream(dir / "tokenizer.json") << file;
    const auto tokenizer = Tokenizer::load(dir);
    for (const Json& expected : configuration["cases"]) {
      const std::string text = *text_of_case(expected, "text");
      const std::optional<std::string> pair = text_of_case(expected, "pair");
      const int64_t max_length = expected.value("max_length", kNoTruncation);
      const Encoding got =
          pair ? tokenizer->encode(text, *pair, max_length) : tokenizer->encode(text, max_length);
      const auto ids = expected["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(got.input_ids, ids) << expected;
      EXPECT_EQ(got.token_type_ids, expected.value("types", std::vector<int32_t>(ids.size(), 0))) << expected;
    }
  }
  fs::remove_all(dir);
}

// Each code point alone, between letters, after marks of accents, and among marks that are kept.
std::string surrounded(int32_t code_point) {
  std::string c;
  append_utf8(code_point, c);
  return c + "a" + c + "B e\u0301\u0327" + c + " \u302E\u302F" + c + "\u0327\u302E\U0001D165";
}

TEST(TokenizerGolden, NormalizesEveryCodePoint) {
  const Json hashes = Json::parse(read(golden("tokenizer_hashes.json")))["code_points"];
  for (const std::string options : {"1111", "1110", "1101", "1100", "0011"}) {
    const BertNormalizer normalizer(
        {options[0] == '1', options[1] == '1', options[2] == '1', options[3] == '1'});
    BertNormalizer::Scratch scratch;
    std::string normalized;
    uint32_t crc = 0;
    for (int32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      normalized.clear();
      normalizer.append_normalized(surrounded(c), scratch, normalized);
      normalized += '\n';
      crc = crc32(normalized, crc);
    }
    EXPECT_EQ(crc, hashes["normalized " + options].get<uint32_t>()) << options;
  }
}

TEST(TokenizerGolden, SplitsAtEveryCodePoint) {
  uint32_t crc = 0;
  for (int32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = surrounded(c);
    std::string words;
    size_t position = 0;
    for (auto word = next_word(text, position); !word.empty(); word = next_word(text, position)) {
      words += word;
      words += '\n';
    }
    crc = crc32(words, crc);
  }
  const Json hashes = Json::parse(read(golden("tokenizer_hashes.json")))["code_points"];
  EXPECT_EQ(crc, hashes["words"].get<uint32_t>());
}

uint32_t crc_of(const std::vector<Encoding>& encodings) {
  uint32_t crc = 0;
  const auto bytes = [](const std::vector<int32_t>& numbers) {
    return std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int32_t));
  };
  for (const Encoding& encoding : encodings)
    crc = crc32(bytes(encoding.token_type_ids), crc32(bytes(encoding.input_ids), crc));
  return crc;
}

Json hashed_files() {
  return Json::parse(read(golden("tokenizer_hashes.json")))["files"];
}

std::vector<std::string> names_of_hashed_files() {
  const Json files = hashed_files();
  std::vector<std::string> names;
  for (const auto& [name, expected] : files.items()) names.push_back(name);
  return names;
}

// With the vocabulary of all-MiniLM-L6-v2 (SHOEHORN_MINILM_DIR, else .cache/minilm of the source tree), on
// the texts of the shared data and of Debian's `fortunes`: one test for each file.
class TokenizerGoldenFile : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerGoldenFile, WithTheVocabularyOfMiniLm) {
  const char* given = std::getenv("SHOEHORN_MINILM_DIR");
  const fs::path model = given != nullptr ? fs::path(given) : fs::path(SHOEHORN_SOURCE_DIR) / ".cache/minilm";
  if (!fs::exists(model / "vocab.txt"))
    GTEST_SKIP() << "no MiniLM in " << model << "; scripts/fetch_minilm.sh";
  const std::string& name = GetParam();
  const Json expected = hashed_files()[name];
  const fs::path path = name.starts_with("shared/") ? fs::path(SHOEHORN_SHARED_DIR) / name.substr(7)
                                                    : fs::path("/usr/share/games/fortunes") / name.substr(9);
  if (!fs::exists(path)) GTEST_SKIP() << "no " << path;
  const std::string text = read(path);
  if (crc32(text, 0) != expected["content"].get<uint32_t>())
    GTEST_SKIP() << path << " is another edition than the one that the goldens were made of";

  const auto tokenizer = Tokenizer::load(model);
  std::vector<TextPair> lines;
  std::vector<TextPair> pairs;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back({std::string_view(text).substr(begin, end - begin), std::nullopt});
    begin = end + 1;
  }
  for (size_t i = 0; i + 1 < lines.size(); i += 2) pairs.push_back({lines[i].first, lines[i + 1].first});
  EXPECT_EQ(crc_of(tokenizer->encode_batch(lines, kNoTruncation, 2)), expected["lines"].get<uint32_t>());
  EXPECT_EQ(crc_of(tokenizer->encode_batch(pairs, 33, 1)), expected["pairs"].get<uint32_t>());
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGoldenFile, testing::ValuesIn(names_of_hashed_files()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace shoehorn
