// Which keys a query sees in attention: the one rule of ops, kernels and costs.
//
// A sequence has Lq queries and Lk keys. Its queries are the last rows of its keys, as in generation with a
// cache of earlier keys: query i stands at place i + Lk - Lq. With as many keys as queries that is place i.
//
//   kFull    every key, whatever the place: encoders, and cross attention to another sequence's keys
//   kCausal  keys 0 … place
//   kWindow  the last `window` of these: keys place - window + 1 … place (Mistral's sliding window)
//
// With more queries than keys, the first Lq - Lk queries of a causal or window mask stand before every key
// and see none. From one query to the next neither end of the range goes back.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shoehorn {

struct AttentionMask {
  enum class Kind : uint8_t { kFull, kCausal, kWindow };
  Kind kind = Kind::kFull;
  int64_t window = 0;  // of kWindow: how many keys a query sees at most, at least 1

  static constexpr AttentionMask full() { return {}; }
  static constexpr AttentionMask causal() { return {Kind::kCausal, 0}; }
  static constexpr AttentionMask sliding_window(int64_t width) { return {Kind::kWindow, width}; }
  bool operator==(const AttentionMask&) const = default;
};

// Rows begin … end - 1; none where end <= begin.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr bool empty() const { return end <= begin; }
};

// Keys that query `query` of a sequence sees. 0 <= query < queries.
constexpr RowRange visible_keys(const AttentionMask& mask, int64_t query, int64_t queries, int64_t keys) {
  if (mask.kind == AttentionMask::Kind::kFull) return {0, keys};
  const int64_t end = std::max<int64_t>(0, query + keys - queries + 1);
  return {mask.kind == AttentionMask::Kind::kWindow ? std::max<int64_t>(0, end - mask.window) : 0, end};
}

// Queries that see key `key` of a sequence. 0 <= key < keys.
constexpr RowRange seeing_queries(const AttentionMask& mask, int64_t key, int64_t queries, int64_t keys) {
  if (mask.kind == AttentionMask::Kind::kFull) return {0, queries};
  const int64_t begin = std::max<int64_t>(0, key - keys + queries);
  if (mask.kind == AttentionMask::Kind::kCausal) return {begin, queries};
  return {begin, std::clamp(key - keys + queries + std::min(mask.window, keys), begin, queries)};
}

// Pairs of a query and a key that it sees.
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
