#include "tokenize/word_counts.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenize/load_bytes.h"
#include "tokenize/parallel.h"

namespace shoehorn {
namespace {

// Texts that a thread takes at a time.
constexpr int64_t kCountedTextsPerTurn = 64;

// Every bit of the result depends on every bit of both.
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8)
    if ((load_bytes(text.data() + i, 8) & 0x8080808080808080U) != 0) return false;
  return (load_bytes(text.data() + i, text.size() - i) & 0x8080808080808080U) == 0;
}

}  // namespace

uint64_t WordTable::hash_of(std::string_view word) {
  constexpr uint64_t kFirst = 0x9E3779B97F4A7C15U;
  constexpr uint64_t kSecond = 0xD6E8FEB86659FD93U;
  uint64_t hash = kFirst ^ word.size();
  while (word.size() > 8) {
    hash = mix(hash ^ load_bytes(word.data(), 8), kSecond);
    word.remove_prefix(8);
  }
  return mix(hash ^ load_bytes(word.data(), word.size()), kSecond);
}

WordTable::Slot& WordTable::find(std::string_view word, uint64_t hash) {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.count == 0) return slot;
    if (slot.hash == hash && slot.size == word.size() &&
        std::memcmp(bytes_.data() + slot.begin, word.data(), word.size()) == 0)
      return slot;
  }
}

void WordTable::add(std::string_view word, uint64_t hash, int64_t count) {
  Slot& slot = find(word, hash);
  if (slot.count == 0) {
    slot.hash = hash;
    slot.begin = bytes_.size();
    slot.size = static_cast<uint32_t>(word.size());
    bytes_.append(word);
    ++size_;
  }
  slot.count += count;
  if (static_cast<size_t>(size_) * 3 > slots_.size() * 2) grow();
}

void WordTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].count != 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void WordTable::clear() {
  std::ranges::fill(slots_, Slot{});
  bytes_.clear();
  size_ = 0;
}

WordCounts::WordCounts(SplitScanner scan, const Normalizer* normalizer, int threads)
    : scan_(scan),
      normalizer_(normalizer),
      workers_(static_cast<size_t>(threads)),
      shards_(static_cast<size_t>(threads)) {}

void WordCounts::count_text(std::string_view text, Worker& worker) const {
  if (!is_valid_utf8(text)) {
    worker.invalid += count_invalid_utf8(text);
    worker.valid = replace_invalid_utf8(text);
    text = worker.valid;
  }
  if (normalizer_ != nullptr && !is_ascii(text)) {
    worker.text.text.assign(text, 0, false);
    normalizer_->normalize(worker.text.text);
    text = worker.text.text.bytes();
  }
  worker.pieces.clear();
  scan_(text, {0, text.size()}, worker.pieces);
  worker.total += std::ssize(worker.pieces);
  for (const TextRange& piece : worker.pieces) {
    const std::string_view word = text.substr(piece.begin, piece.size());
    worker.words.add(word, WordTable::hash_of(word), 1);
  }
}

void WordCounts::add(const TextBatch& batch) {
  const int threads = static_cast<int>(workers_.size());
  run_in_parallel(threads, std::ssize(batch.ends), kCountedTextsPerTurn, [&](int thread, int64_t i) {
    const auto text = static_cast<size_t>(i);
    const size_t begin = text == 0 ? 0 : batch.ends[text - 1];
    count_text(std::string_view(batch.bytes).substr(begin, batch.ends[text] - begin),
               workers_[static_cast<size_t>(thread)]);
  });
  run_in_parallel(threads, threads, 1, [&](int /*thread*/, int64_t i) {
    const auto shard = static_cast<size_t>(i);
    for (const Worker& worker : workers_)
      worker.words.for_each([&](std::string_view word, uint64_t hash, int64_t count) {
        if (shard_of(hash) == shard) shards_[shard].add(word, hash, count);
      });
  });
  for (Worker& worker : workers_) {
    worker.words.clear();
    total_ += std::exchange(worker.total, 0);
    invalid_ += std::exchange(worker.invalid, 0);
  }
}

int64_t WordCounts::different() const {
  int64_t count = 0;
  for (const WordTable& shard : shards_) count += shard.size();
  return count;
}

int64_t WordCounts::word_bytes() const {
  int64_t bytes = 0;
  for (const WordTable& shard : shards_) bytes += shard.word_bytes();
  return bytes;
}

void WordCounts::for_each(const std::function<void(std::string_view word, int64_t count)>& visit) const {
  for (const WordTable& shard : shards_)
    shard.for_each([&](std::string_view word, uint64_t /*hash*/, int64_t count) { visit(word, count); });
}

}  // namespace shoehorn
