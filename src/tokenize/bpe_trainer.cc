#include "tokenize/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenize/bpe_merges.h"
#include "tokenize/byte_level.h"
#include "tokenize/byte_level_chain.h"
#include "tokenize/unicode_normalizers.h"
#include "tokenize/vocabulary.h"
#include "tokenize/word_counts.h"

namespace shoehorn {
namespace {

constexpr uint32_t kNoId = UINT32_MAX;

class Nfc final : public Normalizer {
 public:
  void normalize(AlignedText& text) const override { normalize_unicode(text, UnicodeForm::kNfc); }
};

void check_options(const BpeTrainerOptions& options) {
  if (options.vocab_size > kMaxTokens)
    throw user_error("[vocab_size] expected at most {}, got {}", kMaxTokens, options.vocab_size);
  if (options.min_frequency < 0)
    throw user_error("[min_frequency] expected 0 or more, got {}", options.min_frequency);
  if (options.threads < 1) throw user_error("[threads] expected 1 or more, got {}", options.threads);
  if (options.limit_alphabet && options.all_bytes)
    throw user_error(
        "[limit_alphabet] expected no value where the alphabet is all bytes, got {}; let it be the bytes "
        "of the texts",
        *options.limit_alphabet);
  if (options.limit_alphabet && *options.limit_alphabet < 1)
    throw user_error("[limit_alphabet] expected 1 or more, got {}", *options.limit_alphabet);
  std::set<std::string_view> known;
  for (const std::string& token : options.special_tokens) {
    if (token.empty()) throw user_error("[special_tokens] expected tokens of at least one character, got ''");
    if (!is_valid_utf8(token))
      throw user_error("[special_tokens] expected UTF-8, got '{}'", replace_invalid_utf8(token));
    if (!known.insert(token).second)
      throw user_error("[special_tokens] expected each token once, got '{}' twice", token);
  }
}

std::array<int64_t, 256> count_bytes(const WordCounts& words) {
  std::array<int64_t, 256> counts{};
  words.for_each([&](std::string_view word, int64_t count) {
    for (const char byte : word) counts[static_cast<uint8_t>(byte)] += count;
  });
  return counts;
}

// The bytes of the alphabet in order of their characters' code points. `counts` are those of the texts.
std::vector<uint8_t> find_alphabet(const BpeTrainerOptions& options, const std::array<int64_t, 256>& counts) {
  std::vector<uint8_t> bytes;
  for (int byte = 0; byte < 256; ++byte)
    if (options.all_bytes || counts[static_cast<size_t>(byte)] > 0)
      bytes.push_back(static_cast<uint8_t>(byte));
  const auto by_character = [](uint8_t a, uint8_t b) {
    size_t begin = 0;
    const int32_t first = decode_utf8(alphabet_character(a), begin);
    begin = 0;
    return first < decode_utf8(alphabet_character(b), begin);
  };
  std::ranges::sort(bytes, by_character);
  if (options.limit_alphabet && *options.limit_alphabet < std::ssize(bytes)) {
    std::ranges::stable_sort(bytes, std::greater(), [&](uint8_t byte) { return counts[byte]; });
    bytes.resize(static_cast<size_t>(*options.limit_alphabet));
    std::ranges::sort(bytes, by_character);
  }
  return bytes;
}

// The first tokens: the special ones, and the characters of the alphabet that are none of these. UserError if the
// vocabulary has no room for them.
std::vector<std::string> first_tokens(const BpeTrainerOptions& options,
                                      const std::vector<uint8_t>& alphabet) {
  std::vector<std::string> tokens = options.special_tokens;
  for (const uint8_t byte : alphabet) {
    std::string character(alphabet_character(byte));
    if (std::ranges::find(options.special_tokens, character) == options.special_tokens.end())
      tokens.push_back(std::move(character));
  }
  if (options.vocab_size < std::ssize(tokens))
    throw user_error(
        "[vocab_size] expected {} or more, for special tokens ({}) and the alphabet ({} bytes), got {}",
        tokens.size(), options.special_tokens.size(), alphabet.size(), options.vocab_size);
  return tokens;
}

// The words as ids of `tokens`, without the bytes that have none.
CountedWords words_as_symbols(const WordCounts& words, const std::vector<std::string>& tokens) {
  std::array<uint32_t, 256> ids{};
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    const auto token = std::ranges::find(tokens, alphabet_character(static_cast<uint8_t>(byte)));
    ids[byte] = token == tokens.end() ? kNoId : static_cast<uint32_t>(token - tokens.begin());
  }
  CountedWords result;
  result.symbols.reserve(static_cast<size_t>(words.word_bytes()));
  const auto count = static_cast<size_t>(words.different());
  result.begins.reserve(count);
  result.lengths.reserve(count);
  result.counts.reserve(count);
  words.for_each([&](std::string_view word, int64_t occurrences) {
    result.begin_word(occurrences);
    for (const char byte : word)
      if (const uint32_t id = ids[static_cast<uint8_t>(byte)]; id != kNoId) result.push_symbol(id);
  });
  return result;
}

}  // namespace

std::vector<std::string_view> byte_level_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const ByteLevelChain& chain : byte_level_chains()) names.push_back(chain.name);
  return names;
}

TrainedBpe train_byte_level_bpe(const BpeTrainerOptions& options, std::span<TextSource* const> sources) {
  using Stage = BpeTrainingProgress::Stage;
  check_options(options);
  const ByteLevelChain& chain = find_byte_level_chain(options.pre_tokenizer);
  // Found out before the texts are read.
  if (options.all_bytes) first_tokens(options, find_alphabet(options, {}));
  TrainedBpe trained;
  trained.special_tokens = options.special_tokens;
  trained.pre_tokenizer = options.pre_tokenizer;
  trained.nfc = options.nfc;
  const auto report = [&](Stage stage, int64_t done) {
    if (options.on_progress) options.on_progress({stage, done});
  };

  const Nfc nfc;
  std::optional<WordCounts> words(std::in_place, chain.scan, options.nfc ? &nfc : nullptr, options.threads);
  for (TextSource* source : sources) {
    trained.invalid_utf8 += source->read([&](const TextBatch& batch) {
      words->add(batch);
      trained.text_bytes += std::ssize(batch.bytes);
      report(Stage::kCountingWords, trained.text_bytes);
    });
  }
  trained.words = words->total();
  trained.different_words = words->different();
  trained.invalid_utf8 += words->invalid_utf8();
  if (trained.words == 0)
    throw user_error("[texts] expected text to train on, got none; the sources are empty");

  const std::vector<uint8_t> alphabet = find_alphabet(options, count_bytes(*words));
  trained.alphabet_size = std::ssize(alphabet);
  std::vector<std::string> tokens = first_tokens(options, alphabet);
  CountedWords symbols = words_as_symbols(*words, tokens);
  words.reset();
  BpeMerges learned =
      learn_bpe_merges(std::move(tokens), std::move(symbols),
                       {.vocab_size = options.vocab_size,
                        .min_frequency = options.min_frequency,
                        .threads = options.threads,
                        .on_progress = [&](int64_t done) { report(Stage::kLearningMerges, done); }});
  trained.tokens = std::move(learned.tokens);
  trained.merges = std::move(learned.merges);
  return trained;
}

}  // namespace shoehorn
