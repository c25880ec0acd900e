#include "tokenize/aligned_text.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenize/text_growth.h"
#include "tokenize/unicode.h"

namespace shoehorn {

void AlignedText::assign(std::string_view text, size_t begin, bool aligned) {
  bytes_.assign(text);
  begin_ = begin;
  aligned_ = aligned;
  origins_.clear();
  if (!aligned) return;
  origins_.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t first = position;
    decode_utf8(text, position);
    origins_.insert(origins_.end(), position - first, {begin + first, begin + position});
  }
}

void AlignedText::assign(const AlignedText& whole, TextRange part) {
  clear_as(whole);
  if (part.size() > 0) begin_ = whole.aligned_ ? whole.origins_[part.begin].begin : whole.begin_ + part.begin;
  append(whole, part);
}

void AlignedText::clear_as(const AlignedText& other) {
  bytes_.clear();
  origins_.clear();
  aligned_ = other.aligned_;
  begin_ = other.begin_;
}

void AlignedText::append(const AlignedText& other, TextRange part) {
  bytes_.append(other.bytes_, part.begin, part.size());
  if (aligned_) {
    const auto first = other.origins_.begin() + static_cast<ptrdiff_t>(part.begin);
    origins_.insert(origins_.end(), first, first + static_cast<ptrdiff_t>(part.size()));
  }
}

void AlignedText::append(std::string_view bytes, TextRange origin) {
  bytes_.append(bytes);
  if (aligned_) origins_.insert(origins_.end(), bytes.size(), origin);
}

void AlignedText::transform(std::span<const CodePointChange> changes, size_t dropped) {
  new_bytes_.clear();
  if (!aligned_) {
    for (const CodePointChange& change : changes) append_utf8(change.code_point, new_bytes_);
    bytes_.swap(new_bytes_);
    return;
  }
  new_origins_.clear();
  size_t position = 0;
  const auto skip = [&](size_t count) {
    for (; count > 0 && position < bytes_.size(); --count) decode_utf8(bytes_, position);
  };
  skip(dropped);
  for (const auto& [code_point, kind] : changes) {
    TextRange origin = {begin_, begin_};
    if (kind > 0 && position > 0) origin = origins_[position - 1];
    if (kind <= 0 && !origins_.empty()) origin = origins_[std::min(position, origins_.size() - 1)];
    if (kind <= 0) skip(1 + static_cast<size_t>(-kind));
    append_utf8(code_point, new_bytes_);
    new_origins_.resize(new_bytes_.size(), origin);
  }
  bytes_.swap(new_bytes_);
  origins_.swap(new_origins_);
}

void AlignedText::drop(bool (*is_dropped)(int32_t code_point)) {
  std::vector<CodePointChange> kept;
  size_t dropped_first = 0;
  for (size_t position = 0; position < bytes_.size();) {
    const int32_t code_point = decode_utf8(bytes_, position);
    if (!is_dropped(code_point))
      kept.push_back({code_point, 0});
    else if (kept.empty())
      ++dropped_first;
    else
      --kept.back().kind;
  }
  transform(kept, dropped_first);
}

void AlignedText::prepend(std::string_view prefix) {
  if (bytes_.empty()) return;
  bytes_.insert(0, prefix);
  if (aligned_) origins_.insert(origins_.begin(), prefix.size(), TextRange(origins_.front()));
}

void AlignedText::replace(std::span<const TextRange> matches, std::string_view content) {
  if (matches.empty()) return;
  check_replaced_size(bytes_.size(), bytes_.size() + matches.size() * content.size());
  new_bytes_.clear();
  new_origins_.clear();
  const auto copy = [&](size_t begin, size_t end) {
    new_bytes_.append(bytes_, begin, end - begin);
    if (aligned_)
      new_origins_.insert(new_origins_.end(), origins_.begin() + static_cast<ptrdiff_t>(begin),
                          origins_.begin() + static_cast<ptrdiff_t>(end));
  };
  size_t last = 0;
  for (const TextRange& match : matches) {
    copy(last, match.begin);
    new_bytes_.append(content);
    if (aligned_)
      new_origins_.insert(new_origins_.end(), content.size(),
                          match.end == 0 ? TextRange{begin_, begin_} : origins_[match.end - 1]);
    last = match.end;
  }
  copy(last, bytes_.size());
  bytes_.swap(new_bytes_);
  origins_.swap(new_origins_);
}

}  // namespace shoehorn
