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

}  // namespace

void check_encodings(const Tokenizer& tokenizer, std::string_view text) {
  const Encoding whole = tokenizer.encode(text);
  check_ids(tokenizer, whole);
  const Encoding pair = tokenizer.encode(text.substr(0, text.size() / 2), text.substr(text.size() / 2));
  check_ids(tokenizer, pair);
  for (const int64_t room : {0, 1, 5}) {
    const int64_t most = room + tokenizer.added_token_count(false);
    const Encoding cut = tokenizer.encode(text, most);
    check_ids(tokenizer, cut);
    CHECK(std::ssize(cut.input_ids) == std::min(most, std::ssize(whole.input_ids)), "{} ids of {} at most {}",
          cut.input_ids.size(), whole.input_ids.size(), most);
    const int64_t most_of_pair = room + tokenizer.added_token_count(true);
    const Encoding cut_pair = tokenizer.encode(text, text, most_of_pair);
    check_ids(tokenizer, cut_pair);
    CHECK(std::ssize(cut_pair.input_ids) <= most_of_pair, "{} ids of at most {}", cut_pair.input_ids.size(),
          most_of_pair);
  }
  const EncodingWithOffsets placed = tokenizer.encode_with_offsets({text, text}, kNoTruncation);
  CHECK(placed.encoding == tokenizer.encode(text, text), "ids with offsets differ from those without");
  CHECK(placed.offsets.size() == placed.encoding.input_ids.size(), "{} offsets of {} ids",
        placed.offsets.size(), placed.encoding.input_ids.size());
  for (const TextRange& range : placed.offsets)
    CHECK(range.begin <= range.end, "a token from {} to {}", range.begin, range.end);
  for (const bool skips : {true, false})
    CHECK(is_valid_utf8(tokenizer.decode(placed.encoding.input_ids, skips)), "decoded text is not UTF-8");
}

}  // namespace shoehorn::fuzz
