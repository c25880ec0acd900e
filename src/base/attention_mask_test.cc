#include "base/attention_mask.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shoehorn {
namespace {

// A row of characters for each query: x where it sees the key.
std::vector<std::string> picture(const AttentionMask& mask, int64_t queries, int64_t keys) {
  std::vector<std::string> rows;
  for (int64_t query = 0; query < queries; ++query) {
    const RowRange seen = visible_keys(mask, query, queries, keys);
    std::string& row = rows.emplace_back();
    for (int64_t key = 0; key < keys; ++key) row += key >= seen.begin && key < seen.end ? 'x' : '.';
  }
  return rows;
}

using Picture = std::vector<std::string>;

TEST(AttentionMask, SquareSequences) {
  EXPECT_EQ(picture(AttentionMask::full(), 3, 3), (Picture{"xxx", "xxx", "xxx"}));
  EXPECT_EQ(picture(AttentionMask::causal(), 4, 4), (Picture{"x...", "xx..", "xxx.", "xxxx"}));
  EXPECT_EQ(picture(AttentionMask::sliding_window(2), 4, 4), (Picture{"x...", "xx..", ".xx.", "..xx"}));
  EXPECT_EQ(picture(AttentionMask::sliding_window(1), 3, 3), (Picture{"x..", ".x.", "..x"}));
  EXPECT_EQ(picture(AttentionMask::sliding_window(9), 3, 3), picture(AttentionMask::causal(), 3, 3));
}

// Queries are the last rows of the keys.
TEST(AttentionMask, OtherNumbersOfQueriesThanKeys) {
  EXPECT_EQ(picture(AttentionMask::full(), 2, 4), (Picture{"xxxx", "xxxx"}));
  EXPECT_EQ(picture(AttentionMask::causal(), 2, 4), (Picture{"xxx.", "xxxx"}));
  EXPECT_EQ(picture(AttentionMask::sliding_window(3), 2, 5), (Picture{".xxx.", "..xxx"}));
  EXPECT_EQ(picture(AttentionMask::causal(), 4, 2), (Picture{"..", "..", "x.", "xx"}));
  EXPECT_EQ(picture(AttentionMask::sliding_window(1), 4, 2), (Picture{"..", "..", "x.", ".x"}));
  EXPECT_EQ(picture(AttentionMask::causal(), 2, 0), (Picture{"", ""}));
}

TEST(AttentionMask, BothDirectionsTellTheSamePairs) {
  for (const AttentionMask& mask :
       {AttentionMask::full(), AttentionMask::causal(), AttentionMask::sliding_window(1),
        AttentionMask::sliding_window(3), AttentionMask::sliding_window(100)}) {
    for (int64_t queries = 0; queries < 7; ++queries) {
      for (int64_t keys = 0; keys < 7; ++keys) {
        int64_t pairs = 0;
        for (int64_t query = 0; query < queries; ++query) {
          const RowRange seen = visible_keys(mask, query, queries, keys);
          for (int64_t key = 0; key < keys; ++key) {
            const RowRange seeing = seeing_queries(mask, key, queries, keys);
            const bool sees = key >= seen.begin && key < seen.end;
            EXPECT_EQ(sees, query >= seeing.begin && query < seeing.end)
                << query << " of " << queries << ", " << key << " of " << keys;
            pairs += sees ? 1 : 0;
          }
        }
        EXPECT_EQ(visible_pairs(mask, queries, keys), pairs);
      }
    }
  }
}

}  // namespace
}  // namespace shoehorn
