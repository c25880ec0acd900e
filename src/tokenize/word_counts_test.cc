#include "tokenize/word_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tokenize/json_node.h"
#include "tokenize/unicode_normalizers.h"

namespace shoehorn {
namespace {

using Counts = std::map<std::string, int64_t>;

Counts counts_of(const WordCounts& words) {
  Counts counts;
  words.for_each([&](std::string_view word, int64_t count) {
    EXPECT_TRUE(counts.emplace(word, count).second) << word << " is there twice";
  });
  return counts;
}

TextBatch batch_of(const std::vector<std::string>& texts) {
  TextBatch batch;
  for (const std::string& text : texts) batch.append(text);
  return batch;
}

TEST(WordCounts, CountsThePiecesOfTexts) {
  WordCounts words(scan_gpt2, nullptr, 1);
  words.add(batch_of({"the cat, the dog", "", " the cat\n"}));
  words.add(batch_of({"the dog"}));
  EXPECT_EQ(counts_of(words),
            (Counts{{"the", 2}, {" the", 2}, {" cat", 2}, {" dog", 2}, {",", 1}, {"\n", 1}}));
  EXPECT_EQ(words.total(), 10);
  EXPECT_EQ(words.different(), 6);
  EXPECT_EQ(words.word_bytes(), 17);
}

// Nothing runs over the end of a text.
TEST(WordCounts, TextsAreSplitAlone) {
  WordCounts words(scan_gpt2, nullptr, 1);
  words.add(batch_of({"ab", "cd", "1", "2 ", " 3"}));
  EXPECT_EQ(counts_of(words), (Counts{{"ab", 1}, {"cd", 1}, {"1", 1}, {"2", 1}, {" ", 1}, {" 3", 1}}));
}

TEST(WordCounts, IllFormedStretchesAreReplacedAndCounted) {
  WordCounts words(scan_gpt2, nullptr, 2);
  words.add(batch_of({"a\xff", "\xe2\x82 b\xc3", "ok"}));
  EXPECT_EQ(words.invalid_utf8(), 3);
  EXPECT_EQ(counts_of(words)["\xef\xbf\xbd"], 3);
}

TEST(WordCounts, TextsAreNormalized) {
  const nlohmann::json section = {{"type", "NFC"}};
  const std::filesystem::path path = "test";
  const auto nfc = read_normalizer(JsonNode(section, path, "normalizer"));
  WordCounts words(scan_qwen, nfc.get(), 1);
  words.add(batch_of({"e\u0301", "\u00e9", "e"}));
  EXPECT_EQ(counts_of(words), (Counts{{"\u00e9", 2}, {"e", 1}}));
}

// Words of every length up to some, many of them, so that tables grow.
TEST(WordCounts, DoNotDependOnThreadsOrBatches) {
  std::mt19937 random(2);
  std::vector<std::string> texts;
  Counts expected;
  for (int i = 0; i < 5000; ++i) {
    std::string word;
    for (size_t length = 1 + random() % 40; word.size() < length;)
      word += static_cast<char>('a' + random() % 26);
    if (i % 3 == 0 && i > 0) word = texts[random() % texts.size()];
    texts.push_back(word);
    ++expected[word];
  }
  for (const int threads : {1, 2, 3}) {
    for (const size_t at_a_time : {size_t{700}, texts.size()}) {
      WordCounts words(scan_gpt2, nullptr, threads);
      for (size_t begin = 0; begin < texts.size(); begin += at_a_time) {
        const auto first = texts.begin() + static_cast<ptrdiff_t>(begin);
        words.add(
            batch_of({first, first + static_cast<ptrdiff_t>(std::min(at_a_time, texts.size() - begin))}));
      }
      EXPECT_EQ(counts_of(words), expected) << threads << " threads, " << at_a_time;
      EXPECT_EQ(words.total(), 5000);
      EXPECT_EQ(words.different(), std::ssize(expected));
    }
  }
}

}  // namespace
}  // namespace shoehorn
