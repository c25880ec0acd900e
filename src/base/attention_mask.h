// Attention masks: which keys a query sees. Ops, kernels and cost functions all use this one definition.
//
// A sequence has Lq queries and Lk keys. The queries belong to the last Lq keys, as in generation with a
// cache of earlier keys: query i stands at position p = i + Lk - Lq. With Lq = Lk, p = i.
//
//   kFull    every key, whatever the position: encoders, and cross attention to another sequence's keys
//   kCausal  keys 0 … p
//   kWindow  the last `window` of these: keys p - window + 1 … p (Mistral's sliding window)
//
// With more queries than keys, the first Lq - Lk queries of a causal or window mask stand before every key
// and see none. From one query to the next, neither the first nor the last visible key moves back.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shoehorn {

struct AttentionMask {
  enum class Kind : uint8_t { kFull, kCausal, kWindow };
  Kind kind = Kind::kFull;
  int64_t window = 0;  // kWindow only: how many keys a query sees at most; 1 or more

  static constexpr AttentionMask full() { return {}; }
  static constexpr AttentionMask causal() { return {Kind::kCausal, 0}; }
  static constexpr AttentionMask sliding_window(int64_t width) { return {Kind::kWindow, width}; }
  bool operator==(const AttentionMask&) const = default;
};

// Rows [begin, end). Empty if end <= begin.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr bool empty() const { return end <= begin; }
};

// The keys that query `query` of a sequence sees. 0 <= query < queries.
constexpr RowRange visible_keys(const AttentionMask& mask, int64_t query, int64_t queries, int64_t keys) {
  if (mask.kind == AttentionMask::Kind::kFull) return {0, keys};
  const int64_t end = std::max<int64_t>(0, query + keys - queries + 1);
  return {mask.kind == AttentionMask::Kind::kWindow ? std::max<int64_t>(0, end - mask.window) : 0, end};
}

// The queries that see key `key` of a sequence. 0 <= key < keys.
constexpr RowRange seeing_queries(const AttentionMask& mask, int64_t key, int64_t queries, int64_t keys) {
  if (mask.kind == AttentionMask::Kind::kFull) return {0, queries};
  const int64_t begin = std::max<int64_t>(0, key - keys + queries);
  if (mask.kind == AttentionMask::Kind::kCausal) return {begin, queries};
  return {begin, std::clamp(key - keys + queries + std::min(mask.window, keys), begin, queries)};
}

// The number of (query, key) pairs that the mask allows.
constexpr int64_t visible_pairs(const AttentionMask& mask, int64_t queries, int64_t keys) {
  if (mask.kind == AttentionMask::Kind::kFull) return queries * keys;
  int64_t pairs = 0;
  for (int64_t query = 0; query < queries; ++query) {
    const RowRange seen = visible_keys(mask, query, queries, keys);
    pairs += seen.end - seen.begin;
  }
  return pairs;
}

}  // namespace shoehorn
