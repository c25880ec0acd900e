// The pre-tokenizer of a tokenizer cuts a normalized text into pieces. The model turns each piece into
// tokens.
//
// It is one of the five kinds of part that tokenizer.json names by `type`. Each pre-tokenizer has a file,
// alone or with similar ones, and a row in the list of pre_tokenizer.cc.
#pragma once

#include <memory>

#include "tokenize/aligned_text.h"

namespace shoehorn {

class JsonNode;

// Immutable and thread-safe once the chain is complete.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts each piece, and may change it. UserError if a regular expression takes too long.
  virtual void split(PieceText& text) const = 0;

  // Tells a pre-tokenizer whose last step writes the pieces in the byte alphabet (byte_level.h) to leave that
  // step out. Returns true if it has such a step; false, and no change, otherwise.
  virtual bool leave_bytes() { return false; }
  // True if the pieces depend on their position in the original text; then the text must be aligned.
  virtual bool needs_alignment() const { return false; }
};

// UserError: an unknown type, a malformed section.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonNode& node);

}  // namespace shoehorn
