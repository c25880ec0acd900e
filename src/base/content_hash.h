// The content of bytes that come in pieces, as a short text: XXH3 with 128 bits. Equal texts mean equal bytes
// where nobody made them to collide; it finds mistakes, not attacks.
//
//   ContentHash hash;
//   hash.add(std::as_bytes(std::span(values)));
//   hash.hex();  // 32 hexadecimal digits
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace shoehorn {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void add(std::span<const std::byte> bytes);
  // Of all bytes so far, however they were cut into pieces.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoehorn
