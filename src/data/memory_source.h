// Samples in memory: flat arrays without padding, one after the other.
//
// Per token: int32 id, uint8 token type (no array where all are 0), int32 label (for labels per token). Per sample:
// int64 offset, int32 label or float labels. Made by DatasetBuilder (data/dataset.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/growing_array.h"
#include "data/sample_source.h"

namespace shoehorn {

class MemorySource final : public ContiguousSource {
 public:
  MemorySource() = default;

  int64_t distinct_size() const override { return std::ssize(rows_[0].offsets) - 1; }

  int64_t length(int64_t sample, TokenStream stream) const override;
  void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const override;
  void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const override;
  void copy_token_types(int64_t sample, std::span<int32_t> to) const override;
  int64_t document_count(int64_t sample) const override;
  int64_t document_length(int64_t sample, int64_t document) const override;
  int32_t class_label(int64_t sample) const override;
  void copy_value_labels(int64_t sample, std::span<float> to) const override;
  void copy_token_labels(int64_t sample, std::span<int32_t> to) const override;
  int32_t token_label(int64_t sample, int64_t token) const override;
  int64_t labelled_tokens(int64_t sample) const override;
  int64_t first_token(int64_t sample) const override;
  void copy_ids_from(int64_t first_token, std::span<int32_t> to) const override;
  void copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const override;
  int64_t memory_bytes() const override;

 private:
  friend class Dataset;
  friend class DatasetBuilder;

  struct TokenRows {
    GrowingArray<int64_t> offsets = {0};
    GrowingArray<int32_t> ids;
  };
  struct Range {
    size_t begin;
    size_t size;
  };

  const TokenRows& rows_of(TokenStream stream) const { return rows_[static_cast<size_t>(stream)]; }
  TokenRows& rows_of(TokenStream stream) { return rows_[static_cast<size_t>(stream)]; }
  size_t row(int64_t sample) const {
    return static_cast<size_t>(repeats_ == 1 ? sample : sample % distinct_size());
  }
  Range range(int64_t sample, TokenStream stream) const;

  int64_t repeats_ = 1;
  std::array<TokenRows, kTokenStreams.size()> rows_;  // the decoder's without samples where it has no tokens
  GrowingArray<uint8_t> token_types_;
  std::vector<int32_t> labels_;
  std::vector<float> values_;
  // Of each sample where its documents begin in `document_lengths_`, and their end; nothing where each is one.
  std::vector<int64_t> document_offsets_;
  std::vector<int32_t> document_lengths_;
};

}  // namespace shoehorn
