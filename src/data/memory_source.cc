#include "data/memory_source.h"

#include <algorithm>

namespace shoehorn {
namespace {

template <typename Array>
int64_t bytes_of(const Array& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(typename Array::value_type));
}

}  // namespace

MemorySource::Range MemorySource::range(int64_t sample, TokenStream stream) const {
  const GrowingArray<int64_t>& offsets = rows_of(stream).offsets;
  if (offsets.size() == 1) return {0, 0};
  const size_t at = row(sample);
  return {static_cast<size_t>(offsets[at]), static_cast<size_t>(offsets[at + 1] - offsets[at])};
}

int64_t MemorySource::length(int64_t sample, TokenStream stream) const {
  return static_cast<int64_t>(range(sample, stream).size);
}

void MemorySource::copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<int32_t>(range(first + static_cast<int64_t>(i), stream).size);
}

void MemorySource::copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const {
  const auto [begin, size] = range(sample, stream);
  std::ranges::copy(std::span(rows_of(stream).ids).subspan(begin, size), to.begin());
}

void MemorySource::copy_token_types(int64_t sample, std::span<int32_t> to) const {
  if (token_types_.empty()) {
    std::ranges::fill(to, 0);
    return;
  }
  const auto [begin, size] = range(sample, TokenStream::kInput);
  std::ranges::copy(std::span(token_types_).subspan(begin, size), to.begin());
}

int64_t MemorySource::document_count(int64_t sample) const {
  if (document_offsets_.empty()) return 1;
  const size_t at = row(sample);
  return document_offsets_[at + 1] - document_offsets_[at];
}

int64_t MemorySource::document_length(int64_t sample, int64_t document) const {
  if (document_offsets_.empty()) return length(sample, TokenStream::kInput);
  return document_lengths_[static_cast<size_t>(document_offsets_[row(sample)] + document)];
}

int32_t MemorySource::class_label(int64_t sample) const {
  return labels_[row(sample)];
}

void MemorySource::copy_value_labels(int64_t sample, std::span<float> to) const {
  const auto width = static_cast<size_t>(facts_.labels.width);
  std::ranges::copy(std::span(values_).subspan(row(sample) * width, width), to.begin());
}

void MemorySource::copy_token_labels(int64_t sample, std::span<int32_t> to) const {
  const auto [begin, size] = range(sample, labelled_stream(facts_.labels.kind));
  std::ranges::copy(std::span(labels_).subspan(begin, size), to.begin());
}

int32_t MemorySource::token_label(int64_t sample, int64_t token) const {
  return labels_[range(sample, labelled_stream(facts_.labels.kind)).begin + static_cast<size_t>(token)];
}

int64_t MemorySource::labelled_tokens(int64_t sample) const {
  const auto [begin, size] = range(sample, labelled_stream(facts_.labels.kind));
  const auto labels = std::span(labels_).subspan(begin, size);
  return static_cast<int64_t>(size) - std::count(labels.begin(), labels.end(), kIgnoredLabel);
}

int64_t MemorySource::first_token(int64_t sample) const {
  return rows_of(TokenStream::kInput).offsets[static_cast<size_t>(sample)];
}

void MemorySource::copy_ids_from(int64_t first_token, std::span<int32_t> to) const {
  const std::span<const int32_t> ids = rows_of(TokenStream::kInput).ids;
  std::ranges::copy(ids.subspan(static_cast<size_t>(first_token), to.size()), to.begin());
}

void MemorySource::copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const {
  std::ranges::copy(std::span(labels_).subspan(static_cast<size_t>(first_token), to.size()), to.begin());
}

int64_t MemorySource::memory_bytes() const {
  int64_t bytes = bytes_of(token_types_) + bytes_of(labels_) + bytes_of(values_) +
                  bytes_of(document_offsets_) + bytes_of(document_lengths_);
  for (const TokenRows& rows : rows_) bytes += bytes_of(rows.ids);
  bytes += bytes_of(rows_of(TokenStream::kInput).offsets);
  if (facts_.of(TokenStream::kDecoder).tokens > 0) bytes += bytes_of(rows_of(TokenStream::kDecoder).offsets);
  return bytes;
}

}  // namespace shoehorn
