// A hash of bytes that arrive in pieces: XXH3 with 128 bits. It finds damage and mistakes; it is no
// protection against somebody who makes two contents collide.
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
  // The hash of all bytes added so far; how they were cut into pieces does not matter.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoehorn
