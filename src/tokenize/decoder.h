// The decoder of a tokenizer: the texts of tokens become text again.
//
// One of the five kinds of part that tokenizer.json names by `type`. A decoder is one file, or shares one with those
// that are alike, and one line of the list in decoder.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace shoehorn {

class JsonNode;

// Immutable and thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Changes the tokens, of which there may be more or fewer afterwards; end to end they are the text.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

// UserError: an unknown type, a malformed section.
std::unique_ptr<Decoder> read_decoder(const JsonNode& node);

}  // namespace shoehorn
