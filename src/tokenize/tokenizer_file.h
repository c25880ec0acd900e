// What a Hugging Face model directory says of its tokenizer, read and checked: the five parts of its chain, and what
// is around them.
//
// tokenizer.json where there is one, else vocab.txt (one token a line, ids in order of lines) with the chain of BERT.
// tokenizer_config.json and special_tokens_map.json give the names of the special tokens. As transformers'
// BertTokenizer does, do_lower_case, strip_accents and tokenize_chinese_chars written in tokenizer_config.json win
// over a BertNormalizer of tokenizer.json, unless tokenizer_class says that tokenizer.json stands alone
// (PreTrainedTokenizerFast, TokenizersBackend). The truncation and padding sections of tokenizer.json are not used.
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
  bool has_gaps = false;                 // ids below the highest that no token has: empty tokens of the model
  std::vector<AddedToken> added_tokens;  // id -1 where the file does not say it
  int64_t model_max_length = INT64_MAX;  // of tokenizer_config.json, in tokens
  std::string pad_token = "[PAD]";
  std::string cls_token = "[CLS]";
  std::string sep_token = "[SEP]";
  std::string mask_token = "[MASK]";
};

// UserError: neither file is there, a file is malformed, or a part is of a type that is not known; names file and
// problem. SystemError: a file can't be read.
TokenizerFile read_tokenizer_file(const std::filesystem::path& model_dir);

}  // namespace shoehorn
