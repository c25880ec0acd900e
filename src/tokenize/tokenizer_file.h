// Reads and checks the tokenizer of a Hugging Face model directory: the five parts of its chain and its
// special tokens.
//
// The chain comes from tokenizer.json, or if there is none from vocab.json and merges.txt (vocab_merges_files.h), or from
// vocab.txt (one token per line; the line number is the id) with BERT's parts. tokenizer_config.json and special_tokens_map.json name the special
// tokens. As in transformers' BertTokenizer, do_lower_case, strip_accents and tokenize_chinese_chars of
// tokenizer_config.json override a BertNormalizer of tokenizer.json, unless tokenizer_class says that
// tokenizer.json stands alone (PreTrainedTokenizerFast, TokenizersBackend). As there, truncation_side of
// tokenizer_config.json says at which end a text is cut, and its add_bos_token and add_eos_token count only where there is no
// tokenizer.json. The padding section of tokenizer.json is ignored, and so is the length of its truncation section.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tokenize/added_tokens.h"
#include "tokenize/decoder.h"
#include "tokenize/normalizer.h"
#include "tokenize/post_processor.h"
#include "tokenize/pre_tokenizer.h"
#include "tokenize/token_model.h"

namespace shoehorn {

struct TokenizerFile {
  std::filesystem::path path;                   // the file that gave the vocabulary
  std::unique_ptr<Normalizer> normalizer;       // null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: a text is one piece
  std::unique_ptr<TokenModel> model;
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;      // null: tokens with a space between them
  bool has_gaps = false;                 // some ids below the highest have no token (an empty text)
  std::vector<AddedToken> added_tokens;  // id -1 if the file does not give it
  int64_t model_max_length = INT64_MAX;  // in tokens, from tokenizer_config.json
  bool truncates_left = false;           // a text that is too long loses its beginning
  std::string pad_token = "[PAD]";
  std::string cls_token = "[CLS]";
  std::string sep_token = "[SEP]";
  std::string mask_token = "[MASK]";
  std::string eos_token;  // empty: none is named
};

// UserError naming file and problem: no such file exists, a file is malformed, or a part has an unknown type.
// SystemError: a file cannot be read.
TokenizerFile read_tokenizer_file(const std::filesystem::path& model_dir);

}  // namespace shoehorn
