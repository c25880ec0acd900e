// Tokenizers of before tokenizer.json: vocab.json (an object of tokens and ids) and merges.txt (a merge a line, two tokens
// with a space between them, in order of rank; a line "#version…" says nothing).
//
// They hold a byte-level BPE alone. What is around it follows from the class of the tokenizer: tokenizer_class in
// tokenizer_config.json, else in config.json, else the class that transformers has for config.json's model_type. The class's
// parts are those of transformers 5, which writes them as a tokenizer.json; this file makes the same document:
//
//   GPT2Tokenizer      GPT-2's split; add_prefix_space; add_bos_token and add_eos_token
//   RobertaTokenizer   the same split; <s> text </s>; add_prefix_space, trim_offsets
//   Qwen2Tokenizer     NFC; Qwen2's split; as GPT2Tokenizer
//
// Added tokens come from added_tokens_decoder of tokenizer_config.json; without it from special_tokens_map.json, whose names
// then count before those of tokenizer_config.json, and added_tokens.json. Special tokens that none of them lists follow.
#pragma once

#include <string>

#include "tokenize/tokenizer_side_files.h"

namespace shoehorn {

// The tokens by role; an empty one is none.
struct NamedTokens {
  std::string bos_token = {};
  std::string eos_token = {};
  std::string unk_token = {};
  std::string sep_token = {};
  std::string pad_token = {};
  std::string cls_token = {};
  std::string mask_token = {};
};

struct VocabMergesTokenizer {
  std::string tokenizer_json;  // the text of the document
  NamedTokens names;
};

// Whether a directory has both files, no tokenizer.json, and the name of a class above.
bool has_vocab_and_merges(const TokenizerSideFiles& files);

// UserError naming file and line or key: one of the files is not there, or malformed; an id that two tokens have; a merge of
// or to a token that vocab.json lacks; a byte without a token (`tokenizers` would leave it out of texts); another class.
VocabMergesTokenizer read_vocab_and_merges(const TokenizerSideFiles& files);

}  // namespace shoehorn
