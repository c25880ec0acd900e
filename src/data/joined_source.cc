#include "data/joined_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"

namespace shoehorn {

JoinedSource::JoinedSource(std::vector<std::shared_ptr<const SampleSource>> sources,
                           std::optional<Mixture> mixture)
    : sources_(std::move(sources)), mixture_(std::move(mixture)) {
  CHECK(!sources_.empty() && (!mixture_ || std::ssize(sources_) == mixture_->sets()), "{} sources to join",
        sources_.size());
  for (const auto& source : sources_) {
    const SourceFacts& facts = source->facts();
    CHECK((!mixture_ || facts.size == mixture_->set(std::ssize(first_samples_)).samples) &&
              source->distinct_size() == facts.size && source->mixture() == nullptr,
          "a source of {} samples, {} of them distinct", facts.size, source->distinct_size());
    first_samples_.push_back(facts_.size);
    if (first_samples_.size() == 1) {
      facts_ = facts;
    } else {
      facts_.append(facts);
    }
  }
}

JoinedSource::Place JoinedSource::place(int64_t sample) const {
  const auto behind = std::ranges::upper_bound(first_samples_, sample);
  const auto source = static_cast<size_t>(behind - first_samples_.begin()) - 1;
  return {*sources_[source], sample - first_samples_[source]};
}

int64_t JoinedSource::length(int64_t sample, TokenStream stream) const {
  const auto [source, own] = place(sample);
  return source.length(own, stream);
}

void JoinedSource::copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const {
  while (!to.empty()) {
    const auto [source, own] = place(first);
    const int64_t count = std::min<int64_t>(std::ssize(to), source.facts().size - own);
    source.copy_lengths(own, stream, to.first(static_cast<size_t>(count)));
    to = to.subspan(static_cast<size_t>(count));
    first += count;
  }
}

void JoinedSource::copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const {
  const auto [source, own] = place(sample);
  source.copy_ids(own, stream, to);
}

void JoinedSource::copy_token_types(int64_t sample, std::span<int32_t> to) const {
  const auto [source, own] = place(sample);
  source.copy_token_types(own, to);
}

int64_t JoinedSource::document_count(int64_t sample) const {
  const auto [source, own] = place(sample);
  return source.document_count(own);
}

int64_t JoinedSource::document_length(int64_t sample, int64_t document) const {
  const auto [source, own] = place(sample);
  return source.document_length(own, document);
}

int32_t JoinedSource::class_label(int64_t sample) const {
  const auto [source, own] = place(sample);
  return source.class_label(own);
}

void JoinedSource::copy_value_labels(int64_t sample, std::span<float> to) const {
  const auto [source, own] = place(sample);
  source.copy_value_labels(own, to);
}

void JoinedSource::copy_token_labels(int64_t sample, std::span<int32_t> to) const {
  const auto [source, own] = place(sample);
  source.copy_token_labels(own, to);
}

int32_t JoinedSource::token_label(int64_t sample, int64_t token) const {
  const auto [source, own] = place(sample);
  return source.token_label(own, token);
}

int64_t JoinedSource::labelled_tokens(int64_t sample) const {
  const auto [source, own] = place(sample);
  return source.labelled_tokens(own);
}

std::string JoinedSource::hash_content(const ByteProgress& on_progress) const {
  std::string contents =
      mixture_ ? fmt::format("a mixture until {}", stopping_strategy_name(mixture_->strategy())) : "joined";
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (mixture_) contents += fmt::format("; {}", mixture_->share(static_cast<int64_t>(i)));
    contents += "; " + sources_[i]->content_hash(on_progress);
  }
  ContentHash hash;
  hash.add(std::as_bytes(std::span(contents)));
  return hash.hex();
}

int64_t JoinedSource::memory_bytes() const {
  int64_t bytes = 0;
  for (const auto& source : sources_) bytes += source->memory_bytes();
  return bytes;
}

namespace {

using Sources = std::vector<std::shared_ptr<const SampleSource>>;

void add_source(std::string_view name, const Dataset& dataset, Sources& sources) {
  const SourceFacts& facts = dataset.facts();
  const SourceFacts& first = sources.empty() ? facts : sources.front()->facts();
  const bool has_decoder_tokens = first.of(TokenStream::kDecoder).tokens > 0;
  if (facts.labels != first.labels || dataset.has_decoder_tokens() != has_decoder_tokens)
    throw user_error("[{}] expected the labels and columns of the first data set, got other ones", name);
  if (dataset.source().mixture() != nullptr || dataset.distinct_size() != dataset.size())
    throw user_error("[{}] expected samples that are all different, got a mixture or repeated ones", name);
  sources.push_back(dataset.shared_source());
}

}  // namespace

Dataset concatenate_datasets(const std::vector<Dataset>& sets) {
  if (sets.empty()) throw user_error("[concatenate_datasets] expected data sets, got none");
  Sources sources;
  for (const Dataset& dataset : sets) add_source("concatenate_datasets", dataset, sources);
  return Dataset(std::make_shared<const JoinedSource>(std::move(sources)));
}

Dataset interleave_datasets(const std::vector<WeightedDataset>& sets, StoppingStrategy strategy) {
  if (sets.empty()) throw user_error("[interleave_datasets] expected data sets, got none");
  Sources sources;
  std::vector<MixtureSet> mixed;
  for (const auto& [name, dataset, weight] : sets) {
    if (dataset.size() == 0) throw user_error("[{}] expected samples to mix with others, got none", name);
    if (!std::isfinite(weight) || weight <= 0)
      throw user_error("[{}] expected a weight above 0, got {}", name, weight);
    add_source(name, dataset, sources);
    mixed.push_back({.name = name, .samples = dataset.size(), .weight = weight});
  }
  return Dataset(
      std::make_shared<const JoinedSource>(std::move(sources), Mixture(std::move(mixed), strategy)));
}

}  // namespace shoehorn
