// The post-processor of a tokenizer: special tokens around the sequences, their token types, and offsets without
// white space.
//
// One of the five kinds of part that tokenizer.json names by `type`. Whatever its type it comes down to two templates
// and rules for offsets, so a post-processor is a reader and one line of the list in post_processor.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoehorn {

class JsonNode;

// A place in the output: a sequence, or special tokens.
struct TemplatePiece {
  enum class Kind { kFirst, kSecond, kSpecial };
  Kind kind;
  std::vector<int32_t> ids;  // of kSpecial; empty where only its name is known
  std::string token;         // of kSpecial
  int32_t type_id;
};

// White space at both ends of a token is no part of its offsets.
struct OffsetTrim {
  bool keeps_prefix_space;  // one space before the first token was put there by add_prefix_space
};

struct PostProcessor {
  std::vector<TemplatePiece> single;
  std::vector<TemplatePiece> pair;
  std::vector<OffsetTrim> trims;  // one after the other
};

// A, and for a pair A B with the second of type 1: what there is without a post-processor.
PostProcessor plain_post_processor();

// `cls` A `sep`, and for a pair `cls` A `sep` B `sep` with the second half of type 1. Names without ids are looked up
// in the vocabulary.
PostProcessor bert_post_processor(const TemplatePiece& cls, const TemplatePiece& sep);

// plain_post_processor() where `node` is null. UserError: an unknown type, a malformed section, a Sequence with more
// than one part that adds special tokens.
PostProcessor read_post_processor(const JsonNode& node);

}  // namespace shoehorn
