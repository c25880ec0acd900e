#include "tokenize/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/utf8.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

// The code point that ends at text[end], and where it begins.
int32_t previous_code_point(std::string_view text, size_t end, size_t& begin) {
  begin = begin_of_last_code_point(text, end);
  size_t position = begin;
  return decode_utf8(text, position);
}

bool word_before(std::string_view text, size_t position) {
  size_t begin = 0;
  return position > 0 && is_word_character(previous_code_point(text, position, begin));
}

bool word_after(std::string_view text, size_t position) {
  return position < text.size() && is_word_character(decode_utf8(text, position));
}

size_t skip_space_before(std::string_view text, size_t position) {
  size_t begin = 0;
  while (position > 0 && is_whitespace(previous_code_point(text, position, begin))) position = begin;
  return position;
}

size_t skip_space_after(std::string_view text, size_t position) {
  size_t after = position;
  while (after < text.size() && is_whitespace(decode_utf8(text, after))) position = after;
  return position;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::content);
  for (const AddedToken& token : tokens_) starts_[static_cast<uint8_t>(token.content[0])] = true;
  if (std::ranges::count(starts_, true) == 1)
    single_start_ = static_cast<int>(std::ranges::find(starts_, true) - starts_.begin());
}

// In sorted order, tokens that begin with the same `length` bytes are neighbours; if one of them is exactly
// that long, it is the first.
const AddedToken* AddedTokenMatcher::match(std::string_view text, size_t position) const {
  const AddedToken* longest = nullptr;
  const auto byte_at = [](size_t length) {
    return [length](const AddedToken& token) {
      return token.content.size() == length ? -1
                                            : static_cast<int>(static_cast<uint8_t>(token.content[length]));
    };
  };
  std::span<const AddedToken> alike = tokens_;
  for (size_t length = 0; !alike.empty(); ++length) {
    if (alike.front().content.size() == length) longest = &alike.front();
    if (position + length == text.size()) break;
    const int next = static_cast<uint8_t>(text[position + length]);
    const auto found = std::ranges::equal_range(alike, next, {}, byte_at(length));
    alike = {found.begin(), found.end()};
  }
  return longest;
}

void AddedTokenMatcher::split(std::string_view text, std::vector<Stretch>& stretches) const {
  stretches.clear();
  size_t begin = 0;
  size_t position = tokens_.empty() ? text.size() : 0;
  while (position < text.size()) {
    if (single_start_ >= 0) {
      const void* found = std::memchr(text.data() + position, single_start_, text.size() - position);
      if (found == nullptr) break;
      position = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    } else if (!starts_[static_cast<uint8_t>(text[position])]) {
      ++position;
      continue;
    }
    const AddedToken* token = match(text, position);
    if (token == nullptr) {
      ++position;
      continue;
    }
    size_t first = position;
    size_t last = position + token->content.size();
    position = last;
    if (token->single_word && (word_before(text, first) || word_after(text, last))) continue;
    // The white space may already belong to the token before.
    if (token->lstrip) first = std::max(skip_space_before(text, first), begin);
    if (token->rstrip) last = skip_space_after(text, last);
    if (begin < first) stretches.push_back({begin, first, -1});
    stretches.push_back({first, last, token->id});
    begin = last;
  }
  if (begin < text.size()) stretches.push_back({begin, text.size(), -1});
}

}  // namespace shoehorn
