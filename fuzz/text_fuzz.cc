// Any text through one tokenizer: UTF-8, the normalizer, words, WordPiece, added tokens (tokenize/). Two
// tokenizers, to have every option both ways.
#include "base/error.h"
#include "base/utf8.h"
#include "fuzz/reader.h"
#include "fuzz/tokenizer_properties.h"
#include "tokenize/bert_normalizer.h"
#include "tokenize/character_pre_tokenizers.h"
#include "tokenize/unicode.h"
#include "tokenize/word_piece.h"

namespace shoehorn::fuzz {
namespace {

Tokenizer make_tokenizer(bool plain) {
  using Kind = TemplatePiece::Kind;
  TokenizerFile file;
  file.path = "vocab.txt";
  TokenList tokens;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "ab", "##b", "e",
                            "\u00e9", "##\u0301", "\u4f60", ",", "."})
    tokens.push_back(token);
  file.normalizer = std::make_unique<BertNormalizer>(BertNormalizerOptions{plain, plain, plain, plain});
  file.pre_tokenizer = std::make_unique<BertPreTokenizer>();
  file.model = std::make_unique<WordPiece>(
      std::move(tokens), WordPieceOptions{.max_input_chars_per_word = plain ? 100 : 3}, "vocab.txt");
  file.added_tokens = {{.content = "[MASK]", .lstrip = !plain, .rstrip = plain},
                       {.content = "aba", .single_word = true},
                       {.content = "E\u0301", .normalized = true}};
  PostProcessor& processor = file.post_processor;
  processor.single = {
      {Kind::kSpecial, {2}, "[CLS]", 0}, {Kind::kFirst, {}, "", 0}, {Kind::kSpecial, {3}, "[SEP]", 0}};
  processor.pair = processor.single;
  processor.pair.push_back({Kind::kSecond, {}, "", 1});
  return Tokenizer(std::move(file));
}

void fuzz_text(std::string_view input) {
  static const Tokenizer plain = make_tokenizer(true);
  static const Tokenizer other = make_tokenizer(false);
  check_encodings(plain, input);
  check_encodings(other, input);

  const std::string replaced = replace_invalid_utf8(input);
  CHECK(is_valid_utf8(replaced), "what replaces ill-formed stretches is not UTF-8");
  CHECK(is_valid_utf8(input) == (count_invalid_utf8(input) == 0), "two readers of UTF-8 differ");
  if (replaced != input)
    CHECK(plain.encode(replaced) == plain.encode(input), "what is not UTF-8 is not U+FFFD");
}

const Registration kTextReader("text", fuzz_text);

}  // namespace
}  // namespace shoehorn::fuzz
