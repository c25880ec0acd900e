// A range of bytes in a text.
#pragma once

#include <cstddef>

namespace shoehorn {

struct TextRange {
  size_t begin = 0;
  size_t end = 0;  // one past the last byte

  size_t size() const { return end - begin; }
  bool operator==(const TextRange&) const = default;
};

}  // namespace shoehorn
