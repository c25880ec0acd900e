#include "tokenize/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenize/byte_level.h"
#include "tokenize/json_node.h"
#include "tokenize/load_bytes.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

constexpr uint64_t kHashMultiplier = 0x9E3779B97F4A7C15u;

// A short piece as two words, its length in the last byte: equal words are equal pieces.
struct PieceKey {
  uint64_t low = 0;
  uint64_t high = 0;

  static constexpr size_t kMaxBytes = 15;

  explicit PieceKey(std::string_view piece) {
    const char* bytes = piece.data();
    const size_t size = piece.size();
    // Loads that overlap: the same bytes fall on the same places.
    if (size > 8) {
      low = load_bytes(bytes, 8);
      high = load_bytes(bytes + size - 8, 8) >> (8 * (16 - size));
    } else if (size == 8) {
      low = load_bytes(bytes, 8);
    } else if (size >= 4) {
      low = load_bytes(bytes, 4) | load_bytes(bytes + size - 4, 4) << (8 * (size - 4));
    } else {
      for (size_t i = 0; i < size; ++i)
        low |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    }
    high |= static_cast<uint64_t>(size) << 56;
  }

  uint64_t hash() const { return (low ^ std::rotl(high * kHashMultiplier, 29)) * kHashMultiplier; }
  bool operator==(const PieceKey&) const = default;
};

struct CacheSlot {
  static constexpr int32_t kMaxIds = 3;

  uint64_t low = 0;
  uint64_t high = 0;  // 0: free, for a piece has a length
  std::array<int32_t, kMaxIds> ids;
  int32_t count = 0;
};
static_assert(sizeof(CacheSlot) == 32);

}  // namespace

// The symbols of the piece that is at work, side by side.
struct BytePairs::Scratch : ModelScratch {
  std::vector<int32_t> ids;
  std::vector<uint32_t> lengths;  // in bytes of the piece
  // By scan: ranks of each symbol with the next, and what they merge to.
  std::vector<uint32_t> ranks;
  std::vector<int32_t> merged;
  // By heap: neighbours of each symbol, and rank << 32 | place of pairs.
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::string character;
  std::vector<CacheSlot> cache;  // a power of two
  int cache_shift = 64;

  void clear() {
    ids.clear();
    lengths.clear();
  }
  void add(int32_t id, size_t length) {
    ids.push_back(id);
    lengths.push_back(static_cast<uint32_t>(length));
  }
};

BytePairs::BytePairs(ModelLists lists, BytePairOptions options, std::string_view file)
    : TokenModel(Vocabulary(std::move(lists.tokens), file)), file_(file), options_(std::move(options)) {
  if (options_.unk_token) unk_id_ = vocabulary_.id_of(*options_.unk_token);
  const int64_t count = lists.merges.size() / 2;
  const size_t capacity = std::bit_ceil(static_cast<size_t>(count) * 2 + 2);
  merges_.assign(capacity, {kFree, kNoRank, -1});
  merge_shift_ = 64 - std::countr_zero(capacity);
  const size_t prefix = options_.continuing_subword_prefix.size();
  for (int64_t rank = 0; rank < count; ++rank) {
    const std::string_view left = lists.merges[2 * rank];
    const std::string_view right = lists.merges[2 * rank + 1];
    const auto id_of = [&](std::string_view token) {
      const int32_t id = vocabulary_.id_of(token);
      if (id < 0)
        throw user_error(
            "[{}] expected model.merges[{}], '{}' and '{}', to be about tokens of model.vocab, got "
            "'{}', which is none",
            file, rank, left, right, token);
      return id;
    };
    if (right.size() < prefix)
      throw user_error("[{}] expected the second token of model.merges[{}] to begin with '{}', got '{}'",
                       file, rank, options_.continuing_subword_prefix, right);
    const uint64_t pair = pair_of(id_of(left), id_of(right));
    const int32_t id = id_of(std::string(left).append(right.substr(prefix)));
    size_t slot = pair * kHashMultiplier >> merge_shift_;
    while (merges_[slot].pair != kFree && merges_[slot].pair != pair) slot = (slot + 1) & (capacity - 1);
    // Of a pair that is there twice the later counts.
    merges_[slot] = {pair, static_cast<uint32_t>(rank), id};
  }
  byte_ids_.fill(-1);
  if (options_.byte_fallback) {
    for (size_t byte = 0; byte < 256; ++byte)
      byte_ids_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
  }
}

bool BytePairs::can_read_bytes() const {
  return !options_.byte_fallback && options_.continuing_subword_prefix.empty() &&
         options_.end_of_word_suffix.empty();
}

void BytePairs::read_bytes() {
  CHECK(can_read_bytes(), "a model of characters was asked to read bytes");
  reads_bytes_ = true;
  for (size_t byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = vocabulary_.id_of(alphabet_character(static_cast<uint8_t>(byte)));
  if (options_.ignore_merges) {
    // No text is the bytes of a token that has another character in it.
    TokenList tokens;
    for (int64_t id = 0; id < vocabulary_.size(); ++id)
      tokens.push_back(bytes_of_alphabet(vocabulary_.token_of(id)).value_or(""));
    byte_tokens_.emplace(std::move(tokens), file_);
  }
}

int64_t BytePairs::table_bytes() const {
  return vocabulary_.table_bytes() + static_cast<int64_t>(merges_.capacity() * sizeof(Merge)) +
         (byte_tokens_ ? byte_tokens_->table_bytes() : 0);
}

std::unique_ptr<ModelScratch> BytePairs::make_scratch(size_t text_bytes) const {
  auto scratch = std::make_unique<Scratch>();
  // A slot for each two words or so of the text; clearing more would cost more than it saves.
  const size_t slots =
      std::bit_floor(std::clamp<size_t>(text_bytes / 16, 16, kMaxCacheBytes / sizeof(CacheSlot)));
  scratch->cache.resize(slots);
  scratch->cache_shift = 64 - std::countr_zero(slots);
  return scratch;
}

const BytePairs::Merge& BytePairs::find_merge(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t slot = pair * kHashMultiplier >> merge_shift_;
  while (merges_[slot].pair != pair && merges_[slot].pair != kFree) slot = (slot + 1) & (merges_.size() - 1);
  return merges_[slot];
}

void BytePairs::append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                           std::vector<int32_t>& ids) const {
  Scratch& own = static_cast<Scratch&>(scratch);
  const char* bytes = text.text.bytes().data();
  for (const TextRange& range : text.pieces) {
    if (ids.size() >= most_ids) return;
    const std::string_view piece(bytes + range.begin, range.size());
    if (piece.size() > PieceKey::kMaxBytes) {
      merge_piece(piece, own);
      ids.insert(ids.end(), own.ids.begin(), own.ids.end());
      continue;
    }
    const PieceKey key(piece);
    CacheSlot& slot = own.cache[key.hash() >> own.cache_shift];
    if (slot.low == key.low && slot.high == key.high) [[likely]] {
      if (slot.count == 1) [[likely]]
        ids.push_back(slot.ids[0]);
      else
        ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
      continue;
    }
    merge_piece(piece, own);
    ids.insert(ids.end(), own.ids.begin(), own.ids.end());
    if (own.ids.size() > CacheSlot::kMaxIds) continue;
    slot.low = key.low;
    slot.high = key.high;
    slot.count = static_cast<int32_t>(own.ids.size());
    std::ranges::copy(own.ids, slot.ids.begin());
  }
}

void BytePairs::append_tokens(std::string_view piece, ModelScratch& scratch,
                              std::vector<ModelToken>& tokens) const {
  Scratch& own = static_cast<Scratch&>(scratch);
  merge_piece(piece, own);
  for (size_t i = 0; i < own.ids.size(); ++i) tokens.push_back({own.ids[i], own.lengths[i]});
}

void BytePairs::merge_piece(std::string_view piece, Scratch& scratch) const {
  if (piece.size() >= UINT32_MAX / 2)
    throw user_error("[text] expected words of at most {} bytes, got one of {}", UINT32_MAX / 2,
                     piece.size());
  scratch.clear();
  if (options_.ignore_merges) {
    append_whole_token(piece, scratch);
    if (!scratch.ids.empty()) return;
  }
  if (reads_bytes_)
    start_bytes(piece, scratch);
  else
    start_characters(piece, scratch);
  if (scratch.ids.size() <= kScannedSymbols)
    merge_by_scan(scratch);
  else
    merge_by_heap(scratch);
}

void BytePairs::append_whole_token(std::string_view piece, Scratch& scratch) const {
  const int32_t id = (byte_tokens_ ? *byte_tokens_ : vocabulary_).id_of(piece);
  if (id < 0) return;
  size_t length = piece.size();
  if (reads_bytes_) length = vocabulary_.token_of(id).size();
  scratch.add(id, length);
}

void BytePairs::start_bytes(std::string_view piece, Scratch& scratch) const {
  size_t unknown = 0;  // bytes of the unknown token that is not yet written
  for (const char c : piece) {
    const auto byte = static_cast<uint8_t>(c);
    const size_t length = alphabet_character(byte).size();
    const int32_t id = byte_ids_[byte];
    if (id < 0 && !options_.unk_token) continue;
    if (unknown > 0 && (id >= 0 || !options_.fuse_unk)) {
      scratch.add(required_unk_id(), unknown);
      unknown = 0;
    }
    if (id >= 0)
      scratch.add(id, length);
    else
      unknown += length;
  }
  if (unknown > 0) scratch.add(required_unk_id(), unknown);
}

void BytePairs::start_characters(std::string_view piece, Scratch& scratch) const {
  size_t unknown = 0;
  for (size_t position = 0; position < piece.size();) {
    const size_t begin = position;
    decode_utf8(piece, position);
    std::string& character = scratch.character;
    character.assign(begin == 0 ? "" : options_.continuing_subword_prefix);
    character.append(piece, begin, position - begin);
    if (position == piece.size()) character.append(options_.end_of_word_suffix);
    const int32_t id = vocabulary_.id_of(character);
    // Fallback bytes do not end a run of unknown characters, whose token comes later then, as in `tokenizers`.
    if (id < 0 && options_.byte_fallback && append_fallback(character, scratch)) continue;
    if (id < 0 && !options_.unk_token) continue;
    if (unknown > 0 && (id >= 0 || !options_.fuse_unk)) {
      scratch.add(required_unk_id(), unknown);
      unknown = 0;
    }
    if (id >= 0)
      scratch.add(id, position - begin);
    else
      unknown += position - begin;
  }
  if (unknown > 0) scratch.add(required_unk_id(), unknown);
}

bool BytePairs::append_fallback(std::string_view character, Scratch& scratch) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (std::ranges::any_of(character, [&](char byte) { return id_of(byte) < 0; })) return false;
  for (const char byte : character) scratch.add(id_of(byte), 1);
  return true;
}

int32_t BytePairs::required_unk_id() const {
  if (unk_id_ < 0)
    throw user_error("[{}] expected the unknown token '{}' in model.vocab, got none; the text needs it",
                     file_, *options_.unk_token);
  return unk_id_;
}

void BytePairs::merge_by_scan(Scratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  std::vector<uint32_t>& lengths = scratch.lengths;
  std::vector<uint32_t>& ranks = scratch.ranks;
  std::vector<int32_t>& merged = scratch.merged;
  size_t count = ids.size();
  if (count < 2) return;
  ranks.resize(count);
  merged.resize(count);
  const auto rank_pair = [&](size_t left) {
    const Merge& merge = find_merge(ids[left], ids[left + 1]);
    ranks[left] = merge.rank;
    merged[left] = merge.id;
  };
  for (size_t i = 0; i + 1 < count; ++i) rank_pair(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNoRank) break;
    ids[best] = merged[best];
    lengths[best] += lengths[best + 1];
    for (size_t i = best + 1; i + 1 < count; ++i) {
      ids[i] = ids[i + 1];
      lengths[i] = lengths[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --count;
    if (best > 0) rank_pair(best - 1);
    if (best + 1 < count) rank_pair(best);
  }
  ids.resize(count);
  lengths.resize(count);
}

void BytePairs::merge_by_heap(Scratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  std::vector<uint32_t>& lengths = scratch.lengths;
  std::vector<uint64_t>& heap = scratch.heap;
  const auto count = static_cast<uint32_t>(ids.size());
  constexpr uint32_t kNone = UINT32_MAX;
  scratch.previous.resize(count);
  scratch.next.resize(count);
  heap.clear();
  const auto entry = [&](uint32_t left, uint32_t right) {
    const Merge& merge = find_merge(ids[left], ids[right]);
    return static_cast<uint64_t>(merge.rank) << 32 | left;
  };
  const auto is_pair = [](uint64_t one) { return one >> 32 != kNoRank; };
  for (uint32_t i = 0; i < count; ++i) {
    scratch.previous[i] = i == 0 ? kNone : i - 1;
    scratch.next[i] = i + 1 == count ? kNone : i + 1;
    if (i + 1 == count) break;
    const uint64_t one = entry(i, i + 1);
    if (is_pair(one)) heap.push_back(one);
  }
  std::ranges::make_heap(heap, std::greater());
  const auto push = [&](uint32_t left, uint32_t right) {
    const uint64_t one = entry(left, right);
    if (!is_pair(one)) return;
    heap.push_back(one);
    std::ranges::push_heap(heap, std::greater());
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater());
    const uint64_t lowest = heap.back();
    heap.pop_back();
    const auto left = static_cast<uint32_t>(lowest);
    const uint32_t right = scratch.next[left];
    // The pair may be gone: a symbol of no length was merged, and a rank is that of one pair.
    if (lengths[left] == 0 || right == kNone) continue;
    const Merge& merge = find_merge(ids[left], ids[right]);
    if (merge.rank != lowest >> 32) continue;
    ids[left] = merge.id;
    lengths[left] += lengths[right];
    lengths[right] = 0;
    const uint32_t behind = scratch.next[right];
    scratch.next[left] = behind;
    if (scratch.previous[left] != kNone) push(scratch.previous[left], left);
    if (behind == kNone) continue;
    scratch.previous[behind] = left;
    push(left, behind);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kNone; i = scratch.next[i], ++kept) {
    ids[kept] = ids[i];
    lengths[kept] = lengths[i];
  }
  ids.resize(kept);
  lengths.resize(kept);
}

std::unique_ptr<TokenModel> read_byte_pairs(const JsonNode& node, ModelLists lists) {
  BytePairOptions options;
  const auto read_text = [&](const char* key) { return node.gives(key) ? node[key].text() : std::string(); };
  if (node.gives("dropout") && (!node["dropout"].value().is_number() || node["dropout"].value() != 0))
    node["dropout"].fail("null", "dropout of merges is not supported");
  if (node.gives("unk_token")) options.unk_token = node["unk_token"].text();
  options.continuing_subword_prefix = read_text("continuing_subword_prefix");
  options.end_of_word_suffix = read_text("end_of_word_suffix");
  options.fuse_unk = node.flag_or("fuse_unk", false);
  options.byte_fallback = node.flag_or("byte_fallback", false);
  options.ignore_merges = node.flag_or("ignore_merges", false);
  if (!lists.has_merges) node["merges"].fail("an array of merges");
  return std::make_unique<BytePairs>(std::move(lists), std::move(options), node.path().string());
}

}  // namespace shoehorn
