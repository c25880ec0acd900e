// Trains byte-level byte-pair encoding on texts. bpe_tokenizer_file.h writes the tokenizer's files.
//
// The vocabulary is that of BpeTrainer in Hugging Face's `tokenizers` 0.23 with a ByteLevel pre-tokenizer: special
// tokens, then the alphabet, then a token for each merge, in order of id. Merges and their ties: bpe_merges.h. The texts'
// special tokens are ordinary text, as there.
//
//   BpeTrainerOptions options{.vocab_size = 8000, .special_tokens = {"<|endoftext|>"}};
//   const auto file = open_text_file("corpus.txt");
//   TextSource* const sources[] = {file.get()};
//   save_tokenizer("tokenizer", train_byte_level_bpe(options, sources), {.eos_token = "<|endoftext|>"});
//   const auto tokenizer = Tokenizer::load("tokenizer");
//
// Memory: the different words of the texts, while they are counted and while merges are learned, and a batch of text: at
// most about 120 bytes for each different word, and 20 for each of its bytes. The texts themselves are not kept.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenize/text_source.h"

namespace shoehorn {

struct BpeTrainingProgress {
  enum class Stage { kCountingWords, kLearningMerges };
  Stage stage;
  int64_t done;  // bytes of text; tokens
};

struct BpeTrainerOptions {
  int64_t vocab_size = 30000;  // special tokens, alphabet and merges together
  int64_t min_frequency = 2;   // a less frequent pair is not merged; 0 is 1
  std::vector<std::string> special_tokens = {};
  // How texts are cut into words, over whose ends nothing is merged: a name of byte_level_pre_tokenizers().
  std::string pre_tokenizer = "gpt2";
  bool nfc = false;  // texts are brought into Unicode's form NFC first, as for Qwen
  // The alphabet is all 256 bytes. Else it is the bytes that the texts have, and other bytes will have no token.
  bool all_bytes = true;
  // With `all_bytes` false: keeps the most frequent bytes only; of equally frequent ones those whose characters come
  // first in the byte alphabet.
  std::optional<int64_t> limit_alphabet = {};
  int threads = 1;  // does not change the result
  std::function<void(const BpeTrainingProgress&)> on_progress = {};
};

struct TrainedBpe {
  std::vector<std::string> tokens;                  // by id, in the byte alphabet (byte_level.h)
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of the parts, by rank
  int64_t alphabet_size = 0;
  std::vector<std::string> special_tokens;  // tokens[0] and following
  std::string pre_tokenizer;
  bool nfc = false;
  // The texts.
  int64_t text_bytes = 0;
  int64_t words = 0;
  int64_t different_words = 0;
  int64_t invalid_utf8 = 0;  // ill-formed stretches, which were read as U+FFFD
};

// The names of pre-tokenizers: gpt2, llama3, qwen2.
std::vector<std::string_view> byte_level_pre_tokenizers();

// Reads each source once, in turn. UserError: an option that is out of its range, a special token that is empty, not UTF-8
// or there twice, a vocab_size that has no room for special tokens and alphabet, texts without a word; what
// sources throw.
TrainedBpe train_byte_level_bpe(const BpeTrainerOptions& options, std::span<TextSource* const> sources);

}  // namespace shoehorn
