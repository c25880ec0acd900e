#include "io/concurrent_hash.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace shoehorn {
namespace {

std::vector<std::byte> bytes_of(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * i) >> 3);
  return bytes;
}

std::string hash_of(std::span<const std::byte> bytes) {
  ContentHash hash;
  hash.add(bytes);
  return hash.hex();
}

// Pieces for the thread and pieces too small for it, in turns.
TEST(ConcurrentHash, IsTheHashOfTheBytesInTheirOrder) {
  const std::vector<std::byte> bytes = bytes_of(size_t{5} << 20);
  const size_t pieces[] = {1, size_t{1} << 18, 0, (size_t{1} << 20) + 3, 17, size_t{1} << 21};
  ConcurrentHash hash;
  std::span<const std::byte> left = bytes;
  for (const size_t piece : pieces) {
    const auto pending = hash.begin(left.first(piece));
    left = left.subspan(piece);
  }
  {
    const auto pending = hash.begin(left);
  }
  EXPECT_EQ(hash.hex(), hash_of(bytes));
}

TEST(ConcurrentHash, BytesMayChangeOnceNothingIsPending) {
  std::vector<std::byte> bytes = bytes_of(size_t{8} << 20);
  const std::string expected = hash_of(bytes);
  ConcurrentHash hash;
  {
    const auto pending = hash.begin(bytes);
  }
  bytes.assign(bytes.size(), std::byte{0xff});
  EXPECT_EQ(hash.hex(), expected);
}

TEST(ConcurrentHash, ManyFilesAtOnce) {
  const std::vector<std::byte> bytes = bytes_of(size_t{1} << 20);
  std::vector<ConcurrentHash> hashes(8);
  for (int round = 0; round < 3; ++round) {
    for (ConcurrentHash& hash : hashes) const auto pending = hash.begin(bytes);
  }
  for (const ConcurrentHash& hash : hashes) EXPECT_EQ(hash.hex(), hashes.front().hex());
}

TEST(ConcurrentHash, OfNothing) {
  const ConcurrentHash hash;
  EXPECT_EQ(hash.hex(), hash_of({}));
}

}  // namespace
}  // namespace shoehorn
