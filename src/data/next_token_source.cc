#include "data/next_token_source.h"

#include "base/content_hash.h"
#include "base/error.h"

namespace shoehorn {

NextTokenSource::NextTokenSource(std::shared_ptr<const SampleSource> samples) : samples_(std::move(samples)) {
  facts_ = samples_->facts();
  const LabelKind kind = facts_.labels.kind;
  CHECK(
      (kind == LabelKind::kNone || kind == LabelKind::kToken) && facts_.of(TokenStream::kDecoder).tokens == 0,
      "next tokens of samples with labels of kind {} and {} tokens of a decoder", static_cast<int>(kind),
      facts_.of(TokenStream::kDecoder).tokens);
  facts_.labels = {LabelKind::kNextToken};
}

int32_t NextTokenSource::class_label(int64_t sample) const {
  CHECK(false, "the class of sample {}, whose labels are next tokens", sample);
}

void NextTokenSource::copy_value_labels(int64_t sample, std::span<float> /*to*/) const {
  CHECK(false, "values of sample {}, whose labels are next tokens", sample);
}

void NextTokenSource::copy_token_labels(int64_t sample, std::span<int32_t> to) const {
  if (labels_are_ids()) {
    samples_->copy_ids(sample, TokenStream::kInput, to);
  } else {
    samples_->copy_token_labels(sample, to);
  }
}

int32_t NextTokenSource::token_label(int64_t sample, int64_t token) const {
  CHECK(!labels_are_ids(), "one of the labels of sample {}, which are its ids", sample);
  return samples_->token_label(sample, token);
}

int64_t NextTokenSource::labelled_tokens(int64_t sample) const {
  const int64_t documents = samples_->document_count(sample);
  if (labels_are_ids()) return samples_->length(sample, TokenStream::kInput) - documents;
  int64_t count = samples_->labelled_tokens(sample);
  int64_t begin = 0;
  for (int64_t d = 0; d < documents; ++d) {
    if (samples_->token_label(sample, begin) != kIgnoredLabel) --count;
    begin += samples_->document_length(sample, d);
  }
  return count;
}

std::string NextTokenSource::hash_content(const ByteProgress& on_progress) const {
  const std::string of_samples = "next tokens of " + samples_->content_hash(on_progress);
  ContentHash hash;
  hash.add(std::as_bytes(std::span(of_samples)));
  return hash.hex();
}

}  // namespace shoehorn
