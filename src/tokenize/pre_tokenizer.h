// The pre-tokenizer of a tokenizer: a normalized text is cut into pieces, which the model turns into tokens one by
// one.
//
// One of the five kinds of part that tokenizer.json names by `type`. A pre-tokenizer is one file, or shares one with
// those that are alike, and one line of the list in pre_tokenizer.cc.
#pragma once

#include <memory>

#include "tokenize/aligned_text.h"

namespace shoehorn {

class JsonNode;

// Immutable and thread-safe, once the chain is made.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts each piece, and may change it. UserError where an expression takes too long.
  virtual void split(PieceText& text) const = 0;

  // Asks a pre-tokenizer that ends by writing its pieces in the byte alphabet (byte_level.h) not to. True if it does
  // so, and will not from now on.
  virtual bool leave_bytes() { return false; }
  // Whether the pieces depend on where they stand in the original text, so that it must be known.
  virtual bool needs_alignment() const { return false; }
};

// UserError: an unknown type, a malformed section.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonNode& node);

}  // namespace shoehorn
