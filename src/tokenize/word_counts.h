// How often each word occurs in the texts that a tokenizer is trained on. A word is a piece that the
// pre-tokenizer cuts.
//
// Threads count the words of a batch in tables of their own. Then each thread adds a share of the words, chosen by
// their hash, to the counts so far. So memory is that of the different words, once, and of one batch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenize/normalizer.h"
#include "tokenize/split_scanner.h"
#include "tokenize/text_source.h"

namespace shoehorn {

// Words and their counts: a hash table with open addressing, at most two thirds full, and the words end to end.
class WordTable {
 public:
  WordTable() : slots_(kFirstSlots) {}

  static uint64_t hash_of(std::string_view word);
  void add(std::string_view word, uint64_t hash, int64_t count);
  void clear();
  int64_t size() const { return size_; }
  // The bytes of all different words.
  int64_t word_bytes() const { return static_cast<int64_t>(bytes_.size()); }

  // Calls visit(word, hash, count) for each word.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_)
      if (slot.count > 0)
        visit(std::string_view(bytes_).substr(slot.begin, slot.size), slot.hash, slot.count);
  }

 private:
  struct Slot {
    uint64_t hash;
    uint64_t begin;
    int64_t count;  // 0: free
    uint32_t size;
  };
  static constexpr size_t kFirstSlots = 1024;

  // The slot of the word, or the free one where it belongs.
  Slot& find(std::string_view word, uint64_t hash);
  void grow();

  std::vector<Slot> slots_;
  std::string bytes_;
  int64_t size_ = 0;
};

class WordCounts {
 public:
  // `normalizer` may be null; it must leave ASCII unchanged. It is called by all threads.
  WordCounts(SplitScanner scan, const Normalizer* normalizer, int threads);

  // Counts the words of the texts. Ill-formed stretches of UTF-8 are read as U+FFFD.
  void add(const TextBatch& batch);

  int64_t total() const { return total_; }           // words
  int64_t different() const;                         // different words
  int64_t word_bytes() const;                        // of the different words
  int64_t invalid_utf8() const { return invalid_; }  // ill-formed stretches
  // Calls visit(word, count) for each different word, in no order.
  void for_each(const std::function<void(std::string_view word, int64_t count)>& visit) const;

 private:
  // What a thread works on.
  struct Worker {
    WordTable words;  // of the batch
    PieceText text;
    std::string valid;
    std::vector<TextRange> pieces;
    int64_t total = 0;
    int64_t invalid = 0;
  };

  void count_text(std::string_view text, Worker& worker) const;
  size_t shard_of(uint64_t hash) const { return (hash >> 32) * shards_.size() >> 32; }

  SplitScanner scan_;
  const Normalizer* normalizer_;
  std::vector<Worker> workers_;    // one a thread
  std::vector<WordTable> shards_;  // the counts so far
  int64_t total_ = 0;
  int64_t invalid_ = 0;
};

}  // namespace shoehorn
