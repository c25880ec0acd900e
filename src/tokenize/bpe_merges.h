// Learns the merges of byte-pair encoding from words and their counts (Sennrich et al. 2016): the most frequent pair of
// neighbouring symbols becomes a new symbol, again and again. Of equally frequent pairs the one of lower ids comes
// first, (left, right) in lexicographic order, as in BpeTrainer of Hugging Face's `tokenizers`.
//
// Counts change only where a merge changes a word. A merge of (a, b) into c in the context x a b y replaces the pair (x, a)
// by (x, c), and (b, y) by (c, y). These are summed in tables by x and by y, so that the table of all pairs is asked once
// per different pair and merge, not once per occurrence.
//
// A text becomes a symbol by one merge only. For what a word's part becomes, while nothing is merged across its ends, depends
// on the part alone: a second pair of the same text would have been merged with the first. So a pair arises at one
// merge, that of its younger symbol, and is only lost later. Its place in the queue may be too high, never too low. It
// is moved down when it comes up.
//
// Time: a merge scans each word in which its pair arose. So a word of megabytes is scanned at most of its merges.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace shoehorn {

// Words as ids of symbols, end to end.
struct CountedWords {
  std::vector<uint32_t> symbols;
  std::vector<uint64_t> begins;   // of each word in `symbols`
  std::vector<uint32_t> lengths;  // in symbols
  std::vector<int64_t> counts;

  // Starts an empty word. The symbols that are pushed behind it belong to it.
  void begin_word(int64_t count) {
    begins.push_back(symbols.size());
    lengths.push_back(0);
    counts.push_back(count);
  }
  void push_symbol(uint32_t id) {
    symbols.push_back(id);
    ++lengths.back();
  }
  int64_t size() const { return static_cast<int64_t>(counts.size()); }
};

struct BpeMergeOptions {
  int64_t vocab_size = 30000;  // stops when there are so many tokens
  int64_t min_frequency = 2;   // stops when no pair is so frequent; 0 is 1
  int threads = 1;
  std::function<void(int64_t tokens)> on_progress = {};  // called now and then with the tokens so far
};

struct BpeMerges {
  std::vector<std::string> tokens;                  // by id: those given, and one for each new text
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of the parts, by rank
};

// `tokens` are the special tokens and the alphabet, all different. Symbols of `words` are ids of the alphabet, of at
// most 256. A merge whose text is a special token gives that token. The result does not depend on the number of
// threads, nor on the order of the words. UserError: more than 2^32 - 2 words.
BpeMerges learn_bpe_merges(std::vector<std::string> tokens, CountedWords words,
                           const BpeMergeOptions& options);

}  // namespace shoehorn
