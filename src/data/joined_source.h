// The samples of several sources, numbered through end to end. With a mixture (data/mixture.h), which says how often and
// when a sampler draws from each of them: what is trained on of several files with --train_file_weights.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/mixture.h"
#include "data/sample_source.h"

namespace shoehorn {

class JoinedSource final : public SampleSource {
 public:
  // The sources are the sets of the mixture, in order. CHECKs that there are any, that sizes agree, that all samples are
  // distinct and that no source is itself a mixture.
  explicit JoinedSource(std::vector<std::shared_ptr<const SampleSource>> sources,
                        std::optional<Mixture> mixture = {});

  const Mixture* mixture() const override { return mixture_ ? &*mixture_ : nullptr; }
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
  int64_t memory_bytes() const override;

 private:
  // Of the sources' hashes and of the mixture's shares and stopping strategy, so that what lies in files is not read for it.
  std::string hash_content(const ByteProgress& on_progress) const override;

  struct Place {
    const SampleSource& source;
    int64_t sample;  // within it
  };

  Place place(int64_t sample) const;

  std::vector<std::shared_ptr<const SampleSource>> sources_;
  std::vector<int64_t> first_samples_;  // of each source
  std::optional<Mixture> mixture_;
};

// Hugging Face's concatenate_datasets. UserError: none, or sets whose labels or columns differ; one with repeated samples.
Dataset concatenate_datasets(const std::vector<Dataset>& sets);

struct WeightedDataset {
  std::string name;  // for people
  Dataset dataset;
  double weight = 1;
};

// Hugging Face's interleave_datasets(sets, probabilities, stopping_strategy), but with shares that are kept to one draw.
// UserError: those of concatenate_datasets and of Mixture, a set without samples, a weight that is not above 0.
Dataset interleave_datasets(const std::vector<WeightedDataset>& sets,
                            StoppingStrategy strategy = StoppingStrategy::kFirstExhausted);

}  // namespace shoehorn
