// The decoder of a tokenizer turns the texts of tokens back into one text.
//
// It is one of the five kinds of part that tokenizer.json names by `type`. Each decoder has a file, alone or
// with similar ones, and a row in the list of decoder.cc.
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
  // Changes the tokens, and possibly their number. The concatenated result is the text.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

// UserError: an unknown type, a malformed section.
std::unique_ptr<Decoder> read_decoder(const JsonNode& node);

}  // namespace shoehorn
