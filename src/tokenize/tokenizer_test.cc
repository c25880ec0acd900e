#include "tokenize/tokenizer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "base/error.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

const fs::path kSmall = fs::path(SHOEHORN_SOURCE_DIR) / "tests/golden/tokenizer_small";

// A model directory that lives for one test.
class ModelDir : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / fmt::format("tokenizer_{}_{}", info->name(), ::getpid());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  void write(const char* name, std::string_view text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  static std::string read(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // The small tokenizer.json with one stretch of text replaced.
  void write_changed(const std::string& from, const std::string& to) const {
    std::string text = read(kSmall / "tokenizer.json");
    const size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    write("tokenizer.json", text.replace(place, from.size(), to));
  }
  std::string error() const {
    try {
      Tokenizer::load(dir_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  }
  void expect_error(std::string_view part) const {
    const std::string message = error();
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(dir_.string()), std::string::npos) << message;
  }

  fs::path dir_;
};

TEST(Tokenizer, SpecialTokensAndIds) {
  const auto tokenizer = Tokenizer::load(kSmall);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->unk_id(), 1);
  EXPECT_EQ(tokenizer->cls_id(), 2);
  EXPECT_EQ(tokenizer->sep_id(), 3);
  EXPECT_EQ(tokenizer->mask_id(), 4);
  EXPECT_EQ(tokenizer->added_token_count(false), 2);
  EXPECT_EQ(tokenizer->added_token_count(true), 3);
  for (int64_t id = 0; id < tokenizer->vocab_size(); ++id)
    EXPECT_EQ(tokenizer->id_of(tokenizer->token_of(id)), id);
  EXPECT_EQ(tokenizer->id_of("no such token"), -1);
  EXPECT_THROW(tokenizer->token_of(-1), UserError);
  EXPECT_THROW(tokenizer->token_of(tokenizer->vocab_size()), UserError);
  EXPECT_GT(tokenizer->table_bytes(), 8000);
  EXPECT_EQ(tokenizer->encode("").input_ids, (Ids{2, 3}));
  EXPECT_EQ(tokenizer->encode("", "").input_ids, (Ids{2, 3, 3}));
  EXPECT_EQ(tokenizer->encode("[MASK]", "[PAD]").token_type_ids, (Ids{0, 0, 0, 1, 1}));
}

TEST(Tokenizer, TruncatesTheLongerFirst) {
  const auto tokenizer = Tokenizer::load(kSmall);
  const auto lengths = [&](int first, int second, int64_t max_length) {
    const auto masks = [](int count) {
      std::string text;
      while (count-- > 0) text += "[MASK]";
      return text;
    };
    const Encoding encoding = tokenizer->encode(masks(first), masks(second), max_length);
    const auto ones = std::ranges::count(encoding.token_type_ids, 1);
    return std::pair<int64_t, int64_t>(static_cast<int64_t>(encoding.input_ids.size()) - ones - 2, ones - 1);
  };
  using Lengths = std::pair<int64_t, int64_t>;
  EXPECT_EQ(lengths(5, 4, 12), Lengths(5, 4));
  EXPECT_EQ(lengths(9, 2, 10), Lengths(5, 2));
  EXPECT_EQ(lengths(2, 9, 10), Lengths(2, 5));
  EXPECT_EQ(lengths(50, 30, 10), Lengths(4, 3));
  EXPECT_EQ(lengths(30, 50, 10), Lengths(3, 4));
  EXPECT_EQ(lengths(50, 50, 10), Lengths(3, 4));
  EXPECT_EQ(lengths(50, 0, 10), Lengths(7, 0));
  EXPECT_EQ(lengths(50, 50, 3), Lengths(0, 0));
  EXPECT_EQ(tokenizer->encode("[MASK][MASK][MASK]", 4).input_ids, (Ids{2, 4, 4, 3}));
  EXPECT_EQ(tokenizer->encode("[MASK]", 2).input_ids, (Ids{2, 3}));
  EXPECT_THROW(tokenizer->encode("a", 1), UserError);
  EXPECT_THROW(tokenizer->encode("a", "b", 2), UserError);
  EXPECT_THROW(tokenizer->encode("a", -1), UserError);
}

TEST(Tokenizer, OffsetsCountBytesOrCharacters) {
  const auto tokenizer = Tokenizer::load(kSmall);
  const TextPair text = {"\u00E9 [MASK]", "\u4F60the"};
  const EncodingWithOffsets characters = tokenizer->encode_with_offsets(text);
  EXPECT_EQ(characters.encoding, tokenizer->encode(text.first, *text.second));
  EXPECT_EQ(characters.offsets,
            (std::vector<TextRange>{{0, 0}, {0, 1}, {2, 8}, {0, 0}, {0, 1}, {1, 4}, {0, 0}}));
  EXPECT_EQ(tokenizer->encode_with_offsets(text, kNoTruncation, OffsetUnit::kByte).offsets,
            (std::vector<TextRange>{{0, 0}, {0, 2}, {3, 9}, {0, 0}, {0, 3}, {3, 6}, {0, 0}}));
  EXPECT_EQ(tokenizer->encode_with_offsets(text, 5).offsets,
            (std::vector<TextRange>{{0, 0}, {0, 1}, {0, 0}, {0, 1}, {0, 0}}));
  EXPECT_THROW(tokenizer->encode_with_offsets(text, 2), UserError);
}

TEST(Tokenizer, DecodesIds) {
  const auto tokenizer = Tokenizer::load(kSmall);
  const Ids ids = tokenizer->encode("The ferry [MASK] leaves, doesn't it?").input_ids;
  EXPECT_EQ(tokenizer->decode(ids), "the ferry leaves, doesn ' t it?");
  EXPECT_EQ(tokenizer->decode(ids, false), "[CLS] the ferry [MASK] leaves, doesn ' t it? [SEP]");
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_THROW(tokenizer->decode(Ids{0, static_cast<int32_t>(tokenizer->vocab_size())}), UserError);
}

TEST(Tokenizer, AnyBytesGiveIdsInRangeOnAnyNumberOfThreads) {
  const auto tokenizer = Tokenizer::load(kSmall);
  std::mt19937 random(8);
  std::vector<std::string> texts(1501);
  for (std::string& text : texts) {
    const size_t length = random() % 200;
    for (size_t i = 0; i < length; ++i)
      text += random() % 3 ? static_cast<char>('a' + random() % 26) : static_cast<char>(random());
  }
  std::vector<TextPair> pairs;
  for (size_t i = 0; i + 1 < texts.size(); ++i)
    pairs.push_back({texts[i], i % 3 ? std::optional<std::string_view>(texts[i + 1]) : std::nullopt});
  const std::vector<Encoding> one = tokenizer->encode_batch(pairs, 64, 1);
  for (int threads : {2, 3, 8}) EXPECT_EQ(tokenizer->encode_batch(pairs, 64, threads), one);
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_LE(one[i].input_ids.size(), 64u);
    ASSERT_EQ(one[i].input_ids.size(), one[i].token_type_ids.size());
    for (int32_t id : one[i].input_ids) ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
    EXPECT_EQ(one[i], pairs[i].second ? tokenizer->encode(texts[i], texts[i + 1], 64)
                                      : tokenizer->encode(texts[i], 64));
  }
  EXPECT_TRUE(tokenizer->encode_batch({}, 64, 4).empty());
}

TEST_F(ModelDir, TheSectionsForTruncationAndPaddingDoNotCount) {
  write_changed(
      R"("truncation":null,"padding":null)",
      R"("truncation":{"direction":"Right","max_length":8,"strategy":"LongestFirst","stride":0},)"
      R"("padding":{"strategy":{"Fixed":9},"direction":"Right","pad_to_multiple_of":null,"pad_id":0,)"
      R"("pad_type_id":0,"pad_token":"[PAD]"})");
  const auto tokenizer = Tokenizer::load(dir_);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "[MASK]";
  EXPECT_EQ(tokenizer->encode(text).input_ids.size(), 3002u);
  EXPECT_EQ(tokenizer->encode("[MASK]").input_ids.size(), 3u);
}

TEST_F(ModelDir, VocabTxtGivesTheSameIds) {
  fs::copy(kSmall / "vocab.txt", dir_ / "vocab.txt");
  const auto small = Tokenizer::load(kSmall);
  const auto plain = Tokenizer::load(dir_);
  for (const char* text :
       {"The Ferry leaves the h\u00E1rbour [MASK] at \u4F60\u597D", "", "unaffable [SEP] \xFF x"}) {
    EXPECT_EQ(small->encode(text, text), plain->encode(text, text));
  }
  write("tokenizer_config.json",
        R"({"do_lower_case": false, "strip_accents": null, "mask_token": {"content": "the"}})");
  const auto cased = Tokenizer::load(dir_);
  EXPECT_NE(cased->encode("THE").input_ids, small->encode("THE").input_ids);
  EXPECT_EQ(cased->mask_id(), small->id_of("the"));
}

TEST_F(ModelDir, VocabTxtIsTrimmedAndMayLackSpecialTokens) {
  write("vocab.txt", "[UNK]\r\n[PAD] \t\r\na\u3000\nb b\n\n##c");
  const auto tokenizer = Tokenizer::load(dir_);
  EXPECT_EQ(tokenizer->id_of("a"), 2);
  EXPECT_EQ(tokenizer->id_of("b b"), 3);
  EXPECT_EQ(tokenizer->id_of("##c"), 5);
  // As transformers: [SEP], [CLS] and [MASK] are appended.
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_EQ(tokenizer->encode("ac").input_ids, (Ids{7, 2, 5, 6}));
}

TEST_F(ModelDir, ConfigurationWinsOverTheNormalizer) {
  fs::copy(kSmall / "tokenizer.json", dir_ / "tokenizer.json");
  write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(Tokenizer::load(dir_)->encode("THE\u00C9").input_ids, (Ids{2, 1, 3}));
  write("tokenizer_config.json", R"({"do_lower_case": false, "tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(Tokenizer::load(dir_)->encode("THE"), Tokenizer::load(kSmall)->encode("the"));
}

// As transformers 5, which takes what is added around a text from tokenizer.json alone, where there is one.
TEST_F(ModelDir, ConfigurationSaysWhichEndIsKeptAndNotWhatIsAdded) {
  fs::copy(kSmall / "tokenizer.json", dir_ / "tokenizer.json");
  const Ids text = Tokenizer::load(kSmall)->encode("the ferry leaves").input_ids;  // [CLS] … [SEP]
  const Ids words(text.begin() + 1, text.end() - 1);
  ASSERT_GE(words.size(), 3U);
  const auto ids_with = [&](const std::string& config, int64_t max_length = kNoTruncation) {
    write("tokenizer_config.json", config);
    return Tokenizer::load(dir_)->encode("the ferry leaves", max_length).input_ids;
  };
  const std::string names = R"("bos_token": "[SEP]", "eos_token": "[CLS]")";
  for (const char* added : {"", R"(, "add_bos_token": false)", R"(, "add_bos_token": true)",
                            R"(, "add_bos_token": true, "add_eos_token": true)"})
    EXPECT_EQ(ids_with("{" + names + added + "}"), text) << added;
  EXPECT_EQ(ids_with(R"({"truncation_side": "right"})", 4), (Ids{text[0], words[0], words[1], text.back()}));
  EXPECT_EQ(ids_with(R"({"truncation_side": "left"})", 4),
            (Ids{text[0], words[words.size() - 2], words.back(), text.back()}));
  const auto left = Tokenizer::load(dir_);
  EXPECT_EQ(left->encode_with_offsets({"the ferry leaves", std::nullopt}, 4).encoding,
            left->encode("the ferry leaves", 4));
  EXPECT_EQ(left->encode("the ferry", "ferry leaves", 5).input_ids.size(), 5U);
  write("tokenizer_config.json", R"({"truncation_side": "middle"})");
  expect_error("truncation_side");
}

TEST_F(ModelDir, RefusesMissingAndBrokenFiles) {
  expect_error("tokenizer.json, vocab.txt, or vocab.json and merges.txt");
  write("vocab.txt", "");
  expect_error("[UNK]");
  write("vocab.txt", "a\nb\n");
  expect_error("[UNK]");
  write("vocab.txt", "[UNK]\na\na\n");
  expect_error("'a' twice");
  write("vocab.txt", std::string("[UNK]\na\0b\n", 10));
  expect_error("vocab.txt:2] expected a token a line, got a NUL byte");
  write("vocab.txt", "[UNK]\n\xFF\n");
  expect_error("UTF-8");
  for (const char* text :
       {"", "{", "[]", "null", "{}", "{\"model\": 3}", "{\"model\": {\"vocab\": {\"a\": 0}"}) {
    write("tokenizer.json", text);
    expect_error("expected");
  }
  fs::copy(kSmall / "tokenizer.json", dir_ / "tokenizer.json", fs::copy_options::overwrite_existing);
  for (const char* text :
       {"[1]", "{\"do_lower_case\": 1}", "{\"pad_token\": []}", "{\"tokenizer_class\": 5}", "{"}) {
    write("tokenizer_config.json", text);
    expect_error("tokenizer_config.json");
  }
}

TEST_F(ModelDir, RefusesWhatIsHiddenOrIsNoFile) {
  const std::string whole = read(kSmall / "tokenizer.json");
  write("tokenizer.json", whole);
  EXPECT_EQ(error(), "none");
  write("tokenizer.json", whole + std::string("\0garbage", 8));
  expect_error("NUL byte");
  write("tokenizer.json", whole + "{}");
  expect_error("tokenizer.json");
  write("tokenizer.json", std::string(100'000, '['));
  expect_error("nesting");
  write("tokenizer.json", whole);
  write("special_tokens_map.json", std::string("{}\0{}", 5));
  expect_error("special_tokens_map.json");
  fs::remove(dir_ / "special_tokens_map.json");
  fs::remove(dir_ / "tokenizer.json");
  ASSERT_EQ(mkfifo((dir_ / "tokenizer.json").c_str(), 0600), 0);
  expect_error("got a pipe or device");
  fs::remove(dir_ / "tokenizer.json");
  fs::create_directory(dir_ / "vocab.txt");
  expect_error("got a directory");
}

TEST_F(ModelDir, SaysHowLongATextMayBe) {
  write("tokenizer.json", read(kSmall / "tokenizer.json"));
  EXPECT_EQ(Tokenizer::load(dir_)->model_max_length(), kNoTruncation);
  write("tokenizer_config.json", R"({"model_max_length": 256})");
  EXPECT_EQ(Tokenizer::load(dir_)->model_max_length(), 256);
  write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(Tokenizer::load(dir_)->model_max_length(), kNoTruncation) << "transformers' word for none";
  for (const char* length : {"0", "-1", "\"long\""}) {
    write("tokenizer_config.json", fmt::format(R"({{"model_max_length": {}}})", length));
    expect_error("model_max_length");
  }
}

TEST_F(ModelDir, NamesWhatItDoesNotSupport) {
  const auto refuses = [&](const std::string& from, const std::string& to, std::string_view part) {
    write_changed(from, to);
    expect_error(part);
  };
  refuses(R"("type":"WordPiece","unk)", R"("type":"Unigram","unk)",
          R"(model.type to be one of BPE, WordLevel, WordPiece, got "Unigram")");
  refuses(R"("type":"BertNormalizer")", R"("type":"Precompiled")",
          "normalizer.type to be one of BertNormalizer,");
  refuses(R"("type":"BertPreTokenizer")", R"("type":"UnicodeScripts")",
          "pre_tokenizer.type to be one of BertPreTokenizer,");
  refuses(R"("type":"TemplateProcessing")", R"("type":"Padding")",
          "post_processor.type to be one of BertProcessing,");
  refuses(R"({"type":"WordPiece","prefix")", R"({"type":"CTC","prefix")",
          "decoder.type to be one of BPEDecoder,");
  refuses(R"("version":"1.0")", R"("version":"2.0")", "version");
  refuses(R"("lowercase":true)", R"("lowercase":"yes")", "normalizer.lowercase");
  refuses(R"("ids":[2])", R"("ids":[99999])", "[CLS]");
  refuses(R"("id":4,"content":"[MASK]")", R"("id":5,"content":"[MASK]")", "[MASK]");
  refuses(R"("Sequence":{"id":"B")", R"("Sequence":{"id":"C")", "pair[3]");
  refuses(R"("Sequence":{"id":"B")", R"("Sequence":{"id":"A")", "every sequence once");
  refuses(R"("single":[)", R"("single":[{"Sequence":{"id":"A","type_id":0}},)", "every sequence once");
  refuses(R"("pair":[)", R"("pair":[{"Sequence":{"id":"B","type_id":1}},)", "every sequence once");
  refuses(R"("unk_token":"[UNK]")", R"("unk_token":"<unk>")", "<unk>");
}

// A few lines that would make a text 2^40 times as long.
TEST_F(ModelDir, RefusesChainsThatGrowWithoutEnd) {
  std::string doubling = R"({"type":"Sequence","normalizers":[)";
  for (int i = 0; i < 40; ++i)
    doubling +=
        fmt::format(R"({}{{"type":"Replace","pattern":{{"String":"a"}},"content":"aa"}})", i > 0 ? "," : "");
  const std::string whole = read(kSmall / "tokenizer.json");
  const size_t begin = whole.find(R"({"type":"BertNormalizer")");
  const size_t end = whole.find('}', begin) + 1;
  write("tokenizer.json", whole.substr(0, begin) + doubling + "]}" + whole.substr(end));
  const auto tokenizer = Tokenizer::load(dir_);
  EXPECT_THROW(tokenizer->encode("banana"), UserError);
  EXPECT_THROW(tokenizer->encode_with_offsets({"banana", std::nullopt}), UserError);
}

TEST_F(ModelDir, RefusesBadIds) {
  for (const char* id :
       {"-1", "1.0", "\"1\"", "null", "[1]", "{}", "99999", "18446744073709551615", "1e99", "0"}) {
    write_changed(R"("[UNK]":1,)", fmt::format(R"("[UNK]":{},)", id));
    expect_error("expected");
  }
  write_changed(R"("[UNK]":1,)", R"("[UNK]":1,"[UNK]":2,)");
  expect_error("once");
  write_changed(R"("vocab":{)", R"("vocab":[{)");
  EXPECT_NE(error(), "none");
}

// As `tokenizers` 0.23 does: ids that no token has are no matter.
TEST_F(ModelDir, TakesIdsWithGaps) {
  const auto file = [](const char* added) {
    return fmt::format(
        R"({{"version":"1.0","added_tokens":[{}],"normalizer":null,"pre_tokenizer":{{"type":"BertPreTokenizer"}},)"
        R"("post_processor":null,"model":{{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
        R"("max_input_chars_per_word":100,"vocab":{{"a":3,"[UNK]":1,"##b":7}}}}}})",
        added);
  };
  write("tokenizer.json", file(""));
  const auto tokenizer = Tokenizer::load(dir_);
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_EQ(tokenizer->encode("ab c").input_ids, (std::vector<int32_t>{3, 7, 1}));
  EXPECT_EQ(tokenizer->token_of(7), "##b");
  EXPECT_EQ(tokenizer->token_of(2), "");
  EXPECT_EQ(tokenizer->id_of(""), -1);
  write(
      "tokenizer.json",
      file(
          R"({"id":8,"content":"[X]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false})"));
  expect_error("[X]");
}

// Whatever the damage, it is a UserError or a tokenizer that works.
TEST_F(ModelDir, SurvivesDamagedFiles) {
  const std::string whole = read(kSmall / "tokenizer.json");
  std::mt19937 random(4);
  for (int i = 0; i < 400; ++i) {
    std::string text = whole;
    // Most of the structure is at the two ends.
    const size_t reach = i % 2 ? 2200 : text.size();
    if (i % 4 == 0) text.resize(random() % reach);
    for (int k = 0; k < 1 + i % 5 && !text.empty(); ++k) {
      const size_t place = random() % std::min(reach, text.size());
      if (i % 3 == 0)
        text[place] = static_cast<char>(random());
      else if (i % 3 == 1)
        text.erase(place, random() % 8);
      else
        text.insert(place, text.substr(random() % text.size(), random() % 20));
    }
    write("tokenizer.json", text);
    try {
      const auto tokenizer = Tokenizer::load(dir_);
      for (int32_t id : tokenizer->encode("The ferry [MASK] \u00E9", "walked").input_ids)
        ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace shoehorn
