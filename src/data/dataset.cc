#include "data/dataset.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/philox.h"
#include "data/mixture.h"
#include "data/next_token_source.h"

namespace shoehorn {

namespace {

const std::shared_ptr<const SampleSource>& no_samples() {
  static const std::shared_ptr<const SampleSource> none = std::make_shared<const MemorySource>();
  return none;
}

}  // namespace

Dataset::Dataset() : source_(no_samples()) {}

Dataset::Dataset(Dataset&& other) noexcept : source_(std::exchange(other.source_, no_samples())) {}

Dataset& Dataset::operator=(Dataset&& other) noexcept {
  source_ = std::exchange(other.source_, no_samples());
  return *this;
}

Dataset::Dataset(std::shared_ptr<const SampleSource> source) : source_(std::move(source)) {
  CHECK(source_ != nullptr, "a data set without a source");
}

int64_t Dataset::epoch_size() const {
  const Mixture* mixture = source_->mixture();
  return mixture == nullptr ? size() : mixture->epoch_size();
}

int64_t Dataset::target_items(int64_t sample) const {
  switch (label_kind()) {
    case LabelKind::kNone:
      return 0;
    case LabelKind::kClass:
      return class_label(sample) == kIgnoredLabel ? 0 : 1;
    case LabelKind::kValue:
      return 1;
    case LabelKind::kToken:
    case LabelKind::kDecoderToken:
    case LabelKind::kNextToken:
      break;
  }
  return source_->labelled_tokens(sample);
}

std::vector<int32_t> Dataset::ids(int64_t sample, TokenStream stream) const {
  std::vector<int32_t> ids(static_cast<size_t>(length(sample, stream)));
  source_->copy_ids(sample, stream, ids);
  return ids;
}

std::vector<int32_t> Dataset::token_type_ids(int64_t sample) const {
  std::vector<int32_t> types(static_cast<size_t>(length(sample)));
  source_->copy_token_types(sample, types);
  return types;
}

std::vector<float> Dataset::value_labels(int64_t sample) const {
  std::vector<float> labels(static_cast<size_t>(label_shape().width));
  source_->copy_value_labels(sample, labels);
  return labels;
}

std::vector<int32_t> Dataset::token_labels(int64_t sample) const {
  std::vector<int32_t> labels(static_cast<size_t>(length(sample, labelled_stream(label_kind()))));
  source_->copy_token_labels(sample, labels);
  return labels;
}

std::vector<int32_t> Dataset::lengths() const {
  std::vector<int32_t> lengths(static_cast<size_t>(size()));
  source_->copy_lengths(0, TokenStream::kInput, lengths);
  return lengths;
}

Dataset Dataset::random_tokens(const RandomTokens& options) {
  if (options.count < 1 || options.length < 1) {
    throw user_error("[random_tokens] expected at least one sample and one token, got {} × {}", options.count,
                     options.length);
  }
  const bool has_values = options.label_kind == LabelKind::kValue;
  const bool has_next_tokens = options.label_kind == LabelKind::kNextToken;
  if (options.vocab_begin < 0 || options.vocab_end <= options.vocab_begin ||
      (options.num_labels < 1 && !has_next_tokens)) {
    throw user_error(
        "[random_tokens] expected a range of token ids and at least one label, got [{}, {}) and {}",
        options.vocab_begin, options.vocab_end, options.num_labels);
  }
  CHECK(has_values || has_next_tokens || options.label_kind == LabelKind::kClass,
        "random labels of another kind");
  const PhiloxKey key = philox_key(options.seed, 0, 0);
  const auto vocabulary = static_cast<uint32_t>(options.vocab_end - options.vocab_begin);
  DatasetBuilder builder;
  builder.reserve(options.count, options.count * options.length);
  std::vector<int32_t> ids(static_cast<size_t>(options.length));
  std::vector<int32_t> labels;
  std::vector<float> values;
  // The high half of a 32 × 32 bit product maps a draw onto a range without division.
  const auto scale = [](uint32_t draw, uint32_t range) {
    return static_cast<int32_t>(uint64_t{draw} * range >> 32);
  };
  for (int64_t sample = 0; sample < options.count; ++sample) {
    const auto low = static_cast<uint32_t>(sample);
    const auto high = static_cast<uint32_t>(sample >> 32);
    for (int64_t t = 0; t < options.length; ++t) {
      const auto block = philox4x32_10(key, {static_cast<uint32_t>(t / 4), low, high, 0});
      ids[static_cast<size_t>(t)] =
          options.vocab_begin + scale(block[static_cast<size_t>(t % 4)], vocabulary);
    }
    if (has_values) {
      for (int32_t i = 0; i < options.num_labels; ++i) {
        const auto draw = philox4x32_10(key, {static_cast<uint32_t>(i), low, high, 1})[0];
        values.push_back(static_cast<float>(scale(draw, 2)));
      }
    } else if (!has_next_tokens) {
      const auto draw = philox4x32_10(key, {0, low, high, 1})[0];
      labels.push_back(scale(draw, static_cast<uint32_t>(options.num_labels)));
    }
    builder.add(ids);
  }
  if (has_values) {
    builder.set_value_labels(std::move(values), options.num_labels);
  } else if (!has_next_tokens) {
    builder.set_class_labels(std::move(labels));
  }
  return has_next_tokens ? next_token(builder.finish()) : builder.finish();
}

Dataset Dataset::alike(int64_t count, int64_t length, LabelShape labels, int64_t decoder_length) {
  if (count < 1 || length < 1 || decoder_length < 0)
    throw user_error("[alike] expected at least one sample and one token, got {} × {}", count, length);
  DatasetBuilder builder;
  const std::vector<int32_t> ids(static_cast<size_t>(length));
  const std::vector<int32_t> decoder_ids(static_cast<size_t>(decoder_length));
  builder.add({.input_ids = ids, .decoder_input_ids = decoder_ids});
  switch (labels.kind) {
    case LabelKind::kNone:
      CHECK(false, "samples without labels");
    case LabelKind::kClass:
      builder.set_class_labels({0});
      break;
    case LabelKind::kValue:
      builder.set_value_labels(std::vector<float>(static_cast<size_t>(labels.width)), labels.width);
      break;
    case LabelKind::kToken:
      builder.set_token_labels(ids);
      break;
    case LabelKind::kDecoderToken:
      builder.set_token_labels(decoder_ids, TokenStream::kDecoder);
      break;
    case LabelKind::kNextToken:
      break;
  }
  MemorySource source = std::move(builder.source_);
  source.repeats_ = count;
  source.facts_.size *= count;
  for (StreamFacts& stream : source.facts_.streams) stream.tokens *= count;
  const Dataset samples(std::make_shared<const MemorySource>(std::move(source)));
  return labels.kind == LabelKind::kNextToken ? next_token(samples) : samples;
}

Dataset Dataset::next_token(const Dataset& dataset) {
  const LabelKind kind = dataset.label_kind();
  if (kind == LabelKind::kNextToken) return dataset;
  if (kind != LabelKind::kNone && kind != LabelKind::kToken) {
    throw user_error(
        "[next_token] expected samples without labels or with one for each token, got labels of another kind; leave "
        "the column labels out");
  }
  if (dataset.has_decoder_tokens())
    throw user_error("[next_token] expected samples without decoder_input_ids, got samples with them");
  return Dataset(std::make_shared<const NextTokenSource>(dataset.source_));
}

Dataset::Rows shift_tokens_right(const Dataset::Rows& labels, int64_t pad_token_id,
                                 int64_t decoder_start_token_id) {
  Dataset::Rows shifted = labels;
  for (std::vector<int64_t>& row : shifted) {
    if (row.empty()) continue;
    std::shift_right(row.begin(), row.end(), 1);
    row.front() = decoder_start_token_id;
    std::ranges::replace(row, int64_t{kIgnoredLabel}, pad_token_id);
  }
  return shifted;
}

void check_sample(const NewSample& sample, int64_t index) {
  const std::span<const int32_t> types = sample.token_type_ids;
  CHECK(types.empty() || types.size() == sample.input_ids.size(), "{} token types for {} ids", types.size(),
        sample.input_ids.size());
  if (sample.input_ids.empty() && !sample.may_be_empty)
    throw user_error("[input_ids] expected at least one token a sample, got none in sample {}", index);
  const auto check_ids = [index](std::string_view name, std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      if (id < 0) throw user_error("[{}] expected ids of at least 0, got {} in sample {}", name, id, index);
    }
  };
  check_ids("input_ids", sample.input_ids);
  check_ids("decoder_input_ids", sample.decoder_input_ids);
  for (const int32_t type : types) {
    if (type < 0 || type > std::numeric_limits<uint8_t>::max())
      throw user_error("[token_type_ids] expected types from 0 to 255, got {} in sample {}", type, index);
  }
}

void DatasetBuilder::reserve(int64_t samples, int64_t tokens) {
  MemorySource::TokenRows& rows = source_.rows_of(TokenStream::kInput);
  rows.offsets.reserve(static_cast<size_t>(samples) + 1);
  rows.ids.reserve(static_cast<size_t>(tokens));
}

void DatasetBuilder::append_ids(TokenStream stream, std::span<const int32_t> ids) {
  MemorySource::TokenRows& rows = source_.rows_of(stream);
  rows.ids.append(ids);
  rows.offsets.push_back(static_cast<int64_t>(rows.ids.size()));
  StreamFacts& facts = source_.facts_.of(stream);
  facts.tokens += std::ssize(ids);
  facts.longest = std::max(facts.longest, std::ssize(ids));
  facts.shortest = size() == 1 ? std::ssize(ids) : std::min(facts.shortest, std::ssize(ids));
  for (const int32_t id : ids) facts.largest_id = std::max(facts.largest_id, id);
}

// Of the sample whose ids were just appended.
void DatasetBuilder::append_token_types(const NewSample& sample) {
  GrowingArray<uint8_t>& types = source_.token_types_;
  const std::span<const int32_t> added = sample.token_type_ids;
  const bool are_zeros = std::ranges::all_of(added, [](int32_t type) { return type == 0; });
  if (are_zeros && types.empty()) return;
  source_.facts_.has_token_types = true;
  const size_t tokens = source_.rows_of(TokenStream::kInput).ids.size();
  types.resize(tokens - added.size());
  for (const int32_t type : added) types.push_back(static_cast<uint8_t>(type));
  types.resize(tokens);
}

void DatasetBuilder::append_documents(const NewSample& sample) {
  SourceFacts& facts = source_.facts_;
  std::vector<int64_t>& offsets = source_.document_offsets_;
  std::vector<int32_t>& lengths = source_.document_lengths_;
  const std::span<const int32_t> added = sample.document_lengths;
  const auto whole = static_cast<int32_t>(sample.input_ids.size());
  CHECK(added.empty() || std::reduce(added.begin(), added.end()) == whole, "documents of {} tokens in all",
        whole);
  if (added.size() > 1 && offsets.empty()) {
    // The samples so far were one document each.
    lengths.resize(static_cast<size_t>(facts.size));
    source_.copy_lengths(0, TokenStream::kInput, lengths);
    offsets.resize(lengths.size() + 1);
    std::iota(offsets.begin(), offsets.end(), 0);
  }
  const int32_t longest = added.empty() ? whole : *std::ranges::max_element(added);
  facts.longest_document = std::max<int64_t>(facts.longest_document, longest);
  facts.most_documents = std::max<int64_t>(facts.most_documents, std::ssize(added));
  if (offsets.empty()) return;
  if (added.empty()) {
    lengths.push_back(whole);
  } else {
    lengths.insert(lengths.end(), added.begin(), added.end());
  }
  offsets.push_back(std::ssize(lengths));
}

void DatasetBuilder::add(const NewSample& sample) {
  check_sample(sample, size());
  const bool decodes = !sample.decoder_input_ids.empty();
  if (size() > 0 && decodes != (source_.facts_.of(TokenStream::kDecoder).tokens > 0)) {
    throw user_error("[decoder_input_ids] expected tokens in every sample or in none, got {} in sample {}",
                     sample.decoder_input_ids.size(), size());
  }
  append_documents(sample);
  append_ids(TokenStream::kInput, sample.input_ids);
  if (decodes) append_ids(TokenStream::kDecoder, sample.decoder_input_ids);
  append_token_types(sample);
  ++source_.facts_.size;
}

void DatasetBuilder::set_class_labels(std::vector<int32_t> labels) {
  CHECK(std::ssize(labels) == size(), "{} labels for {} samples", labels.size(), size());
  source_.facts_.labels = {LabelKind::kClass};
  source_.labels_ = std::move(labels);
}

void DatasetBuilder::set_value_labels(std::vector<float> labels, int64_t width) {
  CHECK(width >= 1 && std::ssize(labels) == size() * width, "{} labels for {} samples of {} each",
        labels.size(), size(), width);
  source_.facts_.labels = {LabelKind::kValue, width};
  source_.values_ = std::move(labels);
}

void DatasetBuilder::set_token_labels(std::vector<int32_t> labels, TokenStream stream) {
  CHECK(std::ssize(labels) == source_.facts_.of(stream).tokens, "{} labels for {} tokens", labels.size(),
        source_.facts_.of(stream).tokens);
  source_.facts_.labels = {stream == TokenStream::kInput ? LabelKind::kToken : LabelKind::kDecoderToken};
  source_.labels_ = std::move(labels);
}

Dataset DatasetBuilder::finish() {
  for (MemorySource::TokenRows& rows : source_.rows_) {
    rows.offsets.shrink_to_fit();
    rows.ids.shrink_to_fit();
  }
  source_.token_types_.shrink_to_fit();
  source_.labels_.shrink_to_fit();
  source_.values_.shrink_to_fit();
  source_.document_offsets_.shrink_to_fit();
  source_.document_lengths_.shrink_to_fit();
  return Dataset(std::make_shared<const MemorySource>(std::exchange(source_, MemorySource())));
}

}  // namespace shoehorn
