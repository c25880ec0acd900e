// The samples of another source, whose labels are their next tokens: the data of a causal language model. The labels
// are the ids of the input, and are kept nowhere; or, where the other source has labels of tokens (-100 for what is no
// target, as in instruction data), these.
#pragma once

#include <memory>
#include <string>

#include "data/sample_source.h"

namespace shoehorn {

class NextTokenSource final : public SampleSource {
 public:
  // CHECKs that the source has no labels or labels of kToken, and no tokens of a decoder.
  explicit NextTokenSource(std::shared_ptr<const SampleSource> samples);

  int64_t distinct_size() const override { return samples_->distinct_size(); }
  const Mixture* mixture() const override { return samples_->mixture(); }
  int64_t length(int64_t sample, TokenStream stream) const override {
    return samples_->length(sample, stream);
  }
  void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const override {
    samples_->copy_lengths(first, stream, to);
  }
  void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const override {
    samples_->copy_ids(sample, stream, to);
  }
  void copy_token_types(int64_t sample, std::span<int32_t> to) const override {
    samples_->copy_token_types(sample, to);
  }
  int64_t document_count(int64_t sample) const override { return samples_->document_count(sample); }
  int64_t document_length(int64_t sample, int64_t document) const override {
    return samples_->document_length(sample, document);
  }
  int32_t class_label(int64_t sample) const override;
  void copy_value_labels(int64_t sample, std::span<float> to) const override;
  void copy_token_labels(int64_t sample, std::span<int32_t> to) const override;
  int32_t token_label(int64_t sample, int64_t token) const override;
  int64_t labelled_tokens(int64_t sample) const override;
  int64_t memory_bytes() const override { return samples_->memory_bytes(); }

 private:
  // Of the other source's hash, so that what lies in files is not read for it.
  std::string hash_content(const ByteProgress& on_progress) const override;

  bool labels_are_ids() const { return samples_->facts().labels.kind == LabelKind::kNone; }

  std::shared_ptr<const SampleSource> samples_;
};

}  // namespace shoehorn
