// Writes the files of a tokenizer that was trained here (bpe_trainer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tokenize/bpe_trainer.h"

namespace shoehorn {

// The roles of special tokens, for tokenizer_config.json. An empty one is not given.
struct TokenizerConfig {
  std::string bos_token = {};
  std::string eos_token = {};
  std::string unk_token = {};
  std::string pad_token = {};
  std::optional<int64_t> model_max_length = {};  // in tokens; none: no limit
};

// The text of tokenizer.json, to the byte as `tokenizers` writes it.
std::string tokenizer_json(const TrainedBpe& trained);

// Writes tokenizer.json and tokenizer_config.json, which Tokenizer::load and transformers' AutoTokenizer read; creates
// the directory. Each file appears complete or not at all. Removes what other tokenizers left in the
// directory (tokenizer_files_in). UserError: a token of `config` that is none of the special ones. SystemError: a
// file cannot be written.
void save_tokenizer(const std::filesystem::path& directory, const TrainedBpe& trained,
                    const TokenizerConfig& config);

// The names of files of a tokenizer that a directory has: those above, and others that transformers would read.
std::vector<std::string> tokenizer_files_in(const std::filesystem::path& directory);

}  // namespace shoehorn
