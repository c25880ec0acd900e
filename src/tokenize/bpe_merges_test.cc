#include "tokenize/bpe_merges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"

namespace shoehorn {
namespace {

using Words = std::map<std::string, int64_t>;

const std::vector<std::string> kLetters = {"a", "b", "c", "d"};

CountedWords symbols_of(const std::vector<std::pair<std::string, int64_t>>& words) {
  CountedWords result;
  for (const auto& [word, count] : words) {
    result.begin_word(count);
    for (const char letter : word) result.push_symbol(static_cast<uint32_t>(letter - 'a'));
  }
  return result;
}

std::vector<std::pair<std::string, int64_t>> list_of(const Words& words) {
  return {words.begin(), words.end()};
}

// The definition: counts all pairs of all words anew for each merge.
BpeMerges naive_merges(const Words& words, const BpeMergeOptions& options) {
  BpeMerges result{.tokens = kLetters, .merges = {}};
  std::vector<std::pair<std::vector<int32_t>, int64_t>> symbols;
  for (const auto& [word, count] : words) {
    symbols.emplace_back(std::vector<int32_t>(), count);
    for (const char letter : word) symbols.back().first.push_back(letter - 'a');
  }
  while (std::ssize(result.tokens) < options.vocab_size) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [ids, count] : symbols)
      for (size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    const auto best =
        std::ranges::max_element(counts, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < std::max<int64_t>(options.min_frequency, 1)) break;
    const auto [left, right] = best->first;
    const auto merged = static_cast<int32_t>(result.tokens.size());
    result.tokens.push_back(result.tokens[static_cast<size_t>(left)] +
                            result.tokens[static_cast<size_t>(right)]);
    result.merges.push_back(best->first);
    for (auto& [ids, count] : symbols) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] != left || ids[i + 1] != right) continue;
        ids[i] = merged;
        ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
      }
    }
  }
  return result;
}

Words random_words(std::mt19937& random, size_t letters, size_t count) {
  Words words;
  while (words.size() < count) {
    std::string word;
    for (size_t length = 1 + random() % 14; word.size() < length;)
      word += static_cast<char>('a' + random() % letters);
    words[word] += 1 + static_cast<int64_t>(random() % 4);
  }
  return words;
}

void expect_equal(const BpeMerges& learned, const BpeMerges& expected) {
  EXPECT_EQ(learned.tokens, expected.tokens);
  EXPECT_EQ(learned.merges, expected.merges);
}

// Few letters: runs of one letter and of two, and many equal counts.
TEST(BpeMerges, AreThoseOfTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Words words = random_words(random, 1 + random() % 4, 1 + random() % 12);
    const BpeMergeOptions options{.vocab_size = 4 + static_cast<int64_t>(random() % 60),
                                  .min_frequency = static_cast<int64_t>(random() % 4)};
    expect_equal(learn_bpe_merges(kLetters, symbols_of(list_of(words)), options),
                 naive_merges(words, options));
    if (HasFailure()) break;
  }
}

TEST(BpeMerges, RunsOfALetterMergeFromTheLeft) {
  const Words words = {{"aaaa", 3}, {"aaaaa", 2}, {"aab", 1}};
  const BpeMergeOptions options{.vocab_size = 40, .min_frequency = 1};
  const BpeMerges learned = learn_bpe_merges(kLetters, symbols_of(list_of(words)), options);
  expect_equal(learned, naive_merges(words, options));
  EXPECT_EQ(learned.tokens[4], "aa");
  EXPECT_EQ(learned.tokens[5], "aaaa") << "aa aa occurs five times";
}

// The order of the ids decides, not that of the words.
TEST(BpeMerges, TiesGoToTheLowerIds) {
  const BpeMergeOptions options{.vocab_size = 7, .min_frequency = 1};
  const BpeMerges learned =
      learn_bpe_merges(kLetters, symbols_of({{"cd", 2}, {"db", 2}, {"ca", 2}}), options);
  EXPECT_EQ(learned.merges, (std::vector<std::pair<int32_t, int32_t>>{{2, 0}, {2, 3}, {3, 1}}));
}

TEST(BpeMerges, DependNeitherOnThreadsNorOnTheOrderOfWords) {
  std::mt19937 random(5);
  // Enough words for threads to be used.
  auto words = list_of(random_words(random, 4, 30'000));
  BpeMergeOptions options{.vocab_size = 300, .min_frequency = 2};
  const BpeMerges expected = learn_bpe_merges(kLetters, symbols_of(words), options);
  EXPECT_EQ(std::ssize(expected.tokens), 300);
  for (const int threads : {2, 3}) {
    options.threads = threads;
    std::ranges::shuffle(words, random);
    expect_equal(learn_bpe_merges(kLetters, symbols_of(words), options), expected);
  }
}

TEST(BpeMerges, ATextThatIsATokenAlreadyIsThatToken) {
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  const BpeMerges learned =
      learn_bpe_merges(tokens, symbols_of({{"abab", 2}}), {.vocab_size = 10, .min_frequency = 1});
  EXPECT_EQ(learned.tokens, (std::vector<std::string>{"a", "b", "ab", "abab"}));
  EXPECT_EQ(learned.merges, (std::vector<std::pair<int32_t, int32_t>>{{0, 1}, {2, 2}}));
}

TEST(BpeMerges, StopAtTheSizeOrTheFrequency) {
  const CountedWords words = symbols_of({{"abcd", 5}, {"ab", 3}});
  EXPECT_EQ(learn_bpe_merges(kLetters, words, {.vocab_size = 5}).tokens.size(), 5U);
  EXPECT_EQ(learn_bpe_merges(kLetters, words, {.vocab_size = 4}).tokens.size(), 4U);
  EXPECT_EQ(learn_bpe_merges(kLetters, words, {.vocab_size = 99, .min_frequency = 6}).tokens.size(), 5U);
  EXPECT_EQ(learn_bpe_merges(kLetters, words, {.vocab_size = 99, .min_frequency = 9}).tokens.size(), 4U);
  EXPECT_EQ(learn_bpe_merges(kLetters, words, {.vocab_size = 99, .min_frequency = 0}).tokens.size(), 7U);
  EXPECT_TRUE(learn_bpe_merges(kLetters, {}, {.vocab_size = 99}).merges.empty());
}

TEST(BpeMerges, ReportProgress) {
  std::mt19937 random(7);
  std::vector<int64_t> reports;
  learn_bpe_merges(kLetters, symbols_of(list_of(random_words(random, 4, 400))),
                   {.vocab_size = 300, .min_frequency = 1, .on_progress = [&](int64_t tokens) {
                      reports.push_back(tokens);
                    }});
  ASSERT_GE(reports.size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(reports));
  EXPECT_LE(reports.back(), 300);
}

}  // namespace
}  // namespace shoehorn
