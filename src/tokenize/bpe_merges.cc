#include "tokenize/bpe_merges.h"

#include <algorithm>
#include <memory_resource>
#include <queue>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "tokenize/parallel.h"

namespace shoehorn {
namespace {

// A pair of ids as one number, in lexicographic order.
uint64_t pair_of(uint32_t left, uint32_t right) {
  return static_cast<uint64_t>(left) << 32 | right;
}

// How often each pair occurs that may be merged: a hash table with open addressing, at most half full.
class PairCounts {
 public:
  PairCounts() : slots_(1 << 16, Slot{kFree, 0}) {}

  void insert(uint64_t pair, int64_t count) {
    if (++size_ * 2 > slots_.size()) grow();
    find_slot(pair) = {pair, count};
  }
  int64_t of(uint64_t pair) { return find_slot(pair).count; }
  // Nothing happens to a pair that is not there.
  void subtract(uint64_t pair, int64_t count) {
    if (Slot& slot = find_slot(pair); slot.pair == pair) slot.count -= count;
  }

 private:
  struct Slot {
    uint64_t pair;
    int64_t count;
  };
  static constexpr uint64_t kFree = UINT64_MAX;

  Slot& find_slot(uint64_t pair) {
    const size_t mask = slots_.size() - 1;
    const uint64_t hash = pair * 0x9E3779B97F4A7C15U;
    for (size_t i = (hash ^ hash >> 32) & mask;; i = (i + 1) & mask)
      if (slots_[i].pair == pair || slots_[i].pair == kFree) return slots_[i];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2, Slot{kFree, 0});
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.pair != kFree) find_slot(slot.pair) = slot;
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

// A pair in the queue.
struct Candidate {
  int64_t count;  // when it was queued
  uint64_t pair;
  std::span<const uint32_t> words;  // where it arose, each word once

  // Whether it comes later than the other.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// The neighbours on one side of the symbols that a merge makes.
class Neighbours {
 public:
  struct Neighbour {
    int64_t count = 0;                 // how often it stands there
    std::vector<uint32_t> words = {};  // in which words, each once
  };

  void add(uint32_t symbol, int64_t count, uint32_t word) {
    Neighbour& neighbour = touch(symbol);
    neighbour.count += count;
    if (neighbour.words.empty() || neighbour.words.back() != word) neighbour.words.push_back(word);
  }
  int64_t count(uint32_t symbol) const { return symbol < all_.size() ? all_[symbol].count : 0; }
  // Adds what another thread found in other words, and empties it.
  void take(Neighbours& other) {
    for (const uint32_t symbol : other.touched_) {
      const Neighbour& from = other.all_[symbol];
      Neighbour& neighbour = touch(symbol);
      neighbour.count += from.count;
      neighbour.words.insert(neighbour.words.end(), from.words.begin(), from.words.end());
    }
    other.clear();
  }
  void clear() {
    for (const uint32_t symbol : touched_) {
      Neighbour& neighbour = all_[symbol];
      neighbour.count = 0;
      neighbour.words.clear();
      if (neighbour.words.capacity() > kKeptWords) neighbour.words = {};
    }
    touched_.clear();
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const uint32_t symbol : touched_) visit(symbol, all_[symbol]);
  }

 private:
  // A list that was longer gives its memory back.
  static constexpr size_t kKeptWords = 4096;

  Neighbour& touch(uint32_t symbol) {
    if (symbol >= all_.size()) all_.resize(std::max<size_t>(symbol + 1, all_.size() * 2));
    if (all_[symbol].count == 0) touched_.push_back(symbol);
    return all_[symbol];
  }

  std::vector<Neighbour> all_;  // by symbol
  std::vector<uint32_t> touched_;
};

struct BothNeighbours {
  Neighbours left;
  Neighbours right;
};

class MergeLearner {
 public:
  MergeLearner(std::vector<std::string> tokens, CountedWords words, const BpeMergeOptions& options)
      : options_(options),
        least_count_(std::max<int64_t>(options.min_frequency, 1)),
        tokens_(std::move(tokens)),
        words_(std::move(words)),
        neighbours_(static_cast<size_t>(options.threads)) {
    for (size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], static_cast<uint32_t>(id));
    CHECK(ids_.size() == tokens_.size(), "a token of the alphabet is there twice");
  }

  BpeMerges learn() {
    queue_initial_pairs();
    while (std::ssize(tokens_) < options_.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = counts_.of(top.pair);
      if (count < least_count_) continue;
      if (top.count != count) {
        top.count = count;
        queue_.push(top);
        continue;
      }
      merge(top);
      if (options_.on_progress && merges_.size() % kMergesPerReport == 0)
        options_.on_progress(std::ssize(tokens_));
    }
    return {std::move(tokens_), std::move(merges_)};
  }

 private:
  static constexpr size_t kMergesPerReport = 128;
  // For fewer words, threads cost more than they save.
  static constexpr int64_t kWordsInParallel = 8192;

  // There are at most 256 symbols, so that a table of all pairs is small.
  void queue_initial_pairs() {
    std::vector<uint32_t> ids;  // by their place in the table
    std::vector<uint32_t> places(tokens_.size());
    std::vector<bool> is_symbol(tokens_.size());
    for (const uint32_t symbol : words_.symbols) is_symbol[symbol] = true;
    for (uint32_t id = 0; id < tokens_.size(); ++id) {
      if (!is_symbol[id]) continue;
      places[id] = static_cast<uint32_t>(ids.size());
      ids.push_back(id);
    }
    struct InitialPair {
      int64_t count = 0;
      size_t words = 0;
      uint32_t last_word = UINT32_MAX;
      std::span<uint32_t> list = {};
    };
    std::vector<InitialPair> pairs(ids.size() * ids.size());
    const auto visit_pairs = [&](auto&& visit) {
      for (uint32_t word = 0; word < words_.size(); ++word) {
        const uint32_t* symbols = words_.symbols.data() + words_.begins[word];
        for (uint32_t i = 0; i + 1 < words_.lengths[word]; ++i)
          visit(pairs[places[symbols[i]] * ids.size() + places[symbols[i + 1]]], word);
      }
    };
    visit_pairs([&](InitialPair& pair, uint32_t word) {
      pair.count += words_.counts[word];
      if (std::exchange(pair.last_word, word) != word) ++pair.words;
    });
    for (InitialPair& pair : pairs) {
      pair.list = new_list(pair.words);
      pair.words = 0;
      pair.last_word = UINT32_MAX;
    }
    visit_pairs([&](InitialPair& pair, uint32_t word) {
      if (std::exchange(pair.last_word, word) != word) pair.list[pair.words++] = word;
    });
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].count < least_count_) continue;
      const uint64_t pair = pair_of(ids[i / ids.size()], ids[i % ids.size()]);
      counts_.insert(pair, pairs[i].count);
      queue_.push({pairs[i].count, pair, pairs[i].list});
    }
  }

  std::span<uint32_t> new_list(size_t size) {
    if (size == 0) return {};
    return {static_cast<uint32_t*>(lists_.allocate(size * sizeof(uint32_t), alignof(uint32_t))), size};
  }

  void merge(const Candidate& top) {
    const uint32_t first = static_cast<uint32_t>(top.pair >> 32);
    const uint32_t second = static_cast<uint32_t>(top.pair);
    std::string text = tokens_[first] + tokens_[second];
    const auto [known, is_new] = ids_.try_emplace(std::move(text), static_cast<uint32_t>(tokens_.size()));
    const uint32_t merged = known->second;
    if (is_new) tokens_.push_back(known->first);
    merges_.emplace_back(static_cast<int32_t>(first), static_cast<int32_t>(second));

    const int64_t count = std::ssize(top.words);
    const int threads = count < kWordsInParallel ? 1 : options_.threads;
    run_in_parallel(threads, threads, 1, [&](int /*thread*/, int64_t part) {
      const auto begin = static_cast<size_t>(count * part / threads);
      const auto end = static_cast<size_t>(count * (part + 1) / threads);
      for (const uint32_t word : top.words.subspan(begin, end - begin))
        merge_in_word(word, first, second, merged, neighbours_[static_cast<size_t>(part)]);
    });
    for (int part = 1; part < threads; ++part) {
      neighbours_[0].left.take(neighbours_[static_cast<size_t>(part)].left);
      neighbours_[0].right.take(neighbours_[static_cast<size_t>(part)].right);
    }
    replace_pairs(first, second, merged);
  }

  // Finds the neighbours at the time of each replacement, from left to right.
  void merge_in_word(uint32_t word, uint32_t first, uint32_t second, uint32_t merged, BothNeighbours& found) {
    uint32_t* symbols = words_.symbols.data() + words_.begins[word];
    const uint32_t length = words_.lengths[word];
    const int64_t count = words_.counts[word];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < length;) {
      if (symbols[i] != first || i + 1 == length || symbols[i + 1] != second) {
        symbols[kept++] = symbols[i++];
        continue;
      }
      if (kept > 0) found.left.add(symbols[kept - 1], count, word);
      i += 2;
      symbols[kept++] = merged;
      if (i < length) found.right.add(symbols[i], count, word);
    }
    words_.lengths[word] = kept;
  }

  void replace_pairs(uint32_t first, uint32_t second, uint32_t merged) {
    auto& [left, right] = neighbours_[0];
    const auto queue = [&](uint64_t pair, int64_t count, const std::vector<uint32_t>& words) {
      if (count < least_count_) return;
      const std::span<uint32_t> list = new_list(words.size());
      std::ranges::copy(words, list.begin());
      counts_.insert(pair, count);
      queue_.push({count, pair, list});
    };
    left.for_each([&](uint32_t symbol, const Neighbours::Neighbour& neighbour) {
      counts_.subtract(pair_of(symbol, first), neighbour.count);
      queue(pair_of(symbol, merged), neighbour.count, neighbour.words);
    });
    right.for_each([&](uint32_t symbol, const Neighbours::Neighbour& neighbour) {
      counts_.subtract(pair_of(second, symbol), neighbour.count);
      // Of a b a b, the second replacement takes the pair (c, a) away that the first one made.
      const int64_t lost = symbol == first ? left.count(merged) : 0;
      queue(pair_of(merged, symbol), neighbour.count - lost, neighbour.words);
    });
    left.clear();
    right.clear();
  }

  const BpeMergeOptions& options_;
  int64_t least_count_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
  CountedWords words_;
  PairCounts counts_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::pair<int32_t, int32_t>> merges_;
  std::vector<BothNeighbours> neighbours_;  // one a thread
  std::pmr::monotonic_buffer_resource
      lists_;  // lists of words of candidates: a merge in a word adds at most two
};

}  // namespace

BpeMerges learn_bpe_merges(std::vector<std::string> tokens, CountedWords words,
                           const BpeMergeOptions& options) {
  CHECK(options.threads >= 1, "[threads] expected at least 1, got {}", options.threads);
  if (words.size() >= UINT32_MAX)
    throw user_error("[texts] expected fewer than {} different words, got {}; train on a part of the texts",
                     UINT32_MAX, words.size());
  return MergeLearner(std::move(tokens), std::move(words), options).learn();
}

}  // namespace shoehorn
