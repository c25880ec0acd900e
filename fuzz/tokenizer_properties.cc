#include "fuzz/tokenizer_properties.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenize/unicode.h"

namespace shoehorn::fuzz {
namespace {

void check_ids(const Tokenizer& tokenizer, const Encoding& encoding) {
  CHECK(encoding.token_type_ids.size() == encoding.input_ids.size(), "{} ids, {} token types",
        encoding.input_ids.size(), encoding.token_type_ids.size());
  for (const int32_t id : encoding.input_ids)
    CHECK(id >= 0 && id < tokenizer.vocab_size(), "id {} of {}", id, tokenizer.vocab_size());
}

Encoding encode(const Tokenizer& tokenizer, const TextPair& texts, int64_t max_length = kNoTruncation) {
  return texts.second ? tokenizer.encode(texts.first, *texts.second, max_length)
                      : tokenizer.encode(texts.first, max_length);
}

void check_texts(const Tokenizer& tokenizer, const TextPair& texts) {
  const Encoding whole = encode(tokenizer, texts);
  check_ids(tokenizer, whole);
  for (const int64_t room : {0, 1, 5}) {
    const int64_t most = room + tokenizer.added_token_count(texts.second.has_value());
    const Encoding cut = encode(tokenizer, texts, most);
    check_ids(tokenizer, cut);
    CHECK(std::ssize(cut.input_ids) == std::min(most, std::ssize(whole.input_ids)), "{} ids of {} at most {}",
          cut.input_ids.size(), whole.input_ids.size(), most);
  }
  const EncodingWithOffsets placed = tokenizer.encode_with_offsets(texts, kNoTruncation);
  CHECK(placed.encoding == whole, "ids with offsets differ from those without");
  CHECK(placed.offsets.size() == whole.input_ids.size(), "{} offsets of {} ids", placed.offsets.size(),
        whole.input_ids.size());
  for (const TextRange& range : placed.offsets)
    CHECK(range.begin <= range.end, "a token from {} to {}", range.begin, range.end);
  for (const bool skips : {true, false})
    CHECK(is_valid_utf8(tokenizer.decode(whole.input_ids, skips)), "decoded text is not UTF-8");
}

}  // namespace

void check_encodings(const Tokenizer& tokenizer, std::string_view text) {
  const size_t half = text.size() / 2;
  check_texts(tokenizer, {text, std::nullopt});
  check_texts(tokenizer, {text.substr(0, half), text.substr(half)});
}

}  // namespace shoehorn::fuzz
