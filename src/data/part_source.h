// Some samples of another source, one behind the other: what is trained on of a file whose beginning is evaluated on.
#pragma once

#include <memory>

#include "data/sample_source.h"

namespace shoehorn {

class PartSource final : public SampleSource {
 public:
  // The samples [begin, end) of `whole`. CHECKs that there are any, and that all of its samples are distinct. Reads the
  // length of each.
  PartSource(std::shared_ptr<const SampleSource> whole, int64_t begin, int64_t end);

  int64_t length(int64_t sample, TokenStream stream) const override {
    return whole_->length(begin_ + sample, stream);
  }
  void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const override {
    whole_->copy_lengths(begin_ + first, stream, to);
  }
  void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const override {
    whole_->copy_ids(begin_ + sample, stream, to);
  }
  void copy_token_types(int64_t sample, std::span<int32_t> to) const override {
    whole_->copy_token_types(begin_ + sample, to);
  }
  int64_t document_count(int64_t sample) const override { return whole_->document_count(begin_ + sample); }
  int64_t document_length(int64_t sample, int64_t document) const override {
    return whole_->document_length(begin_ + sample, document);
  }
  int32_t class_label(int64_t sample) const override { return whole_->class_label(begin_ + sample); }
  void copy_value_labels(int64_t sample, std::span<float> to) const override {
    whole_->copy_value_labels(begin_ + sample, to);
  }
  void copy_token_labels(int64_t sample, std::span<int32_t> to) const override {
    whole_->copy_token_labels(begin_ + sample, to);
  }
  int32_t token_label(int64_t sample, int64_t token) const override {
    return whole_->token_label(begin_ + sample, token);
  }
  int64_t labelled_tokens(int64_t sample) const override { return whole_->labelled_tokens(begin_ + sample); }
  // Its share of the other source's, so that parts that make up the whole have its bytes.
  int64_t memory_bytes() const override;

 private:
  std::shared_ptr<const SampleSource> whole_;
  int64_t begin_;
};

}  // namespace shoehorn
