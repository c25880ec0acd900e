// The normalizer of a tokenizer changes a text before it is cut into pieces.
//
// It is one of the five kinds of part that tokenizer.json names by `type`. Each normalizer has a file, alone
// or with similar ones, and a row in the list of normalizer.cc.
#pragma once

#include <memory>

#include "tokenize/aligned_text.h"

namespace shoehorn {

class JsonNode;

// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Input and output are valid UTF-8. UserError if a regular expression takes too long.
  virtual void normalize(AlignedText& text) const = 0;
};

// UserError: an unknown type, a malformed section.
std::unique_ptr<Normalizer> read_normalizer(const JsonNode& node);

}  // namespace shoehorn
