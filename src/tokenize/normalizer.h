// The normalizer of a tokenizer: a text is changed before it is cut into pieces.
//
// One of the five kinds of part that tokenizer.json names by `type`. A normalizer is one file, or shares one with
// those that are alike, and one line of the list in normalizer.cc.
#pragma once

#include <memory>

#include "tokenize/aligned_text.h"

namespace shoehorn {

class JsonNode;

// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Valid UTF-8 in and out. UserError where an expression takes too long.
  virtual void normalize(AlignedText& text) const = 0;
};

// UserError: an unknown type, a malformed section.
std::unique_ptr<Normalizer> read_normalizer(const JsonNode& node);

}  // namespace shoehorn
