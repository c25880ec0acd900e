#include "base/content_hash.h"

#include <gtest/gtest.h>

#include <string_view>

namespace shoehorn {
namespace {

std::string hash_of(std::initializer_list<std::string_view> pieces) {
  ContentHash hash;
  for (const std::string_view piece : pieces) hash.add(std::as_bytes(std::span(piece)));
  return hash.hex();
}

// XXH128 of nothing and of "abc", as xxhsum -H128 prints them.
TEST(ContentHash, IsXxh128) {
  EXPECT_EQ(hash_of({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_of({"abc"}), "06b05ab6733a618578af5f94892f3950");
}

TEST(ContentHash, DependsOnTheBytesAndNotOnThePieces) {
  const std::string text(5000, 'x');
  EXPECT_EQ(hash_of({text, "abc"}), hash_of({text + "a", "", "bc"}));
  EXPECT_NE(hash_of({text, "abc"}), hash_of({text, "abd"}));
  EXPECT_NE(hash_of({text, "abc"}), hash_of({"abc", text}));
}

}  // namespace
}  // namespace shoehorn
