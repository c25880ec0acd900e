// What a Hugging Face model directory says of its tokenizer, read and checked.
//
// tokenizer.json where there is one, else vocab.txt (one token a line, ids in order of lines).
// tokenizer_config.json and special_tokens_map.json give the names of the special tokens. As transformers'
// BertTokenizer does, do_lower_case, strip_accents and tokenize_chinese_chars written in
// tokenizer_config.json win over the normalizer of tokenizer.json, unless tokenizer_class says that
// tokenizer.json stands alone (PreTrainedTokenizerFast, TokenizersBackend). The truncation, padding and
// decoder sections of tokenizer.json are not used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tokenize/added_tokens.h"
#include "tokenize/normalizer.h"
#include "tokenize/word_piece.h"

namespace shoehorn {

// A place in the output: a sequence, or special tokens.
struct TemplatePiece {
  enum class Kind { kFirst, kSecond, kSpecial };
  Kind kind;
  std::vector<int32_t> ids;  // of kSpecial; empty where only its name is known
  std::string token;         // of kSpecial
  int32_t type_id;
};

struct TokenizerFile {
  std::filesystem::path path;  // the file that gave the vocabulary
  TokenList tokens;
  bool has_gaps = false;  // ids below the highest that no token has: empty ones in `tokens`
  WordPieceOptions model;
  NormalizerOptions normalizer;
  std::vector<AddedToken> added_tokens;  // id -1 where the file does not say it
  std::vector<TemplatePiece> single;
  std::vector<TemplatePiece> pair;
  int64_t model_max_length = INT64_MAX;  // of tokenizer_config.json, in tokens
  std::string pad_token = "[PAD]";
  std::string cls_token = "[CLS]";
  std::string sep_token = "[SEP]";
  std::string mask_token = "[MASK]";
};

// UserError: neither file is there, a file is malformed, or a component is not of the BERT kind; names file
// and problem. SystemError: a file can't be read.
TokenizerFile read_tokenizer_file(const std::filesystem::path& model_dir);

}  // namespace shoehorn
