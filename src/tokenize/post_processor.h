// The post-processor of a tokenizer adds special tokens around the sequences, sets token types, and trims
// white space from offsets.
//
// It is one of the five kinds of part that tokenizer.json names by `type`. All types reduce to two templates
// and rules for offsets, so a post-processor is a reader function and a row in the list of post_processor.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoehorn {

class JsonNode;

// An element of a template: a sequence, or special tokens.
struct TemplatePiece {
  enum class Kind { kFirst, kSecond, kSpecial };
  Kind kind;
  std::vector<int32_t> ids;  // kSpecial only; empty if only the name is known
  std::string token;         // kSpecial only
  int32_t type_id;
};

// Removes white space at both ends of a token from its offsets.
struct OffsetTrim {
  bool keeps_prefix_space;  // the first token's leading space is kept: add_prefix_space put it there
};

struct PostProcessor {
  std::vector<TemplatePiece> single;
  std::vector<TemplatePiece> pair;
  std::vector<OffsetTrim> trims;  // applied one after the other
};

// Without special tokens: A, or A B with type 1 for the second. Used if there is no post-processor.
PostProcessor plain_post_processor();

// `cls` A `sep`, or `cls` A `sep` B `sep` with type 1 for the second half. The vocabulary gives the ids of
// special tokens that have none.
PostProcessor bert_post_processor(const TemplatePiece& cls, const TemplatePiece& sep);

// A null `node` gives plain_post_processor(). UserError: an unknown type, a malformed section, or a Sequence
// in which more than one part adds special tokens.
PostProcessor read_post_processor(const JsonNode& node);

}  // namespace shoehorn
