#include "data/dataset.h"

#include <algorithm>
#include <array>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/philox.h"

namespace shoehorn {

int64_t Dataset::target_items(int64_t sample) const {
  switch (label_shape_.kind) {
    case LabelKind::kNone:
      return 0;
    case LabelKind::kClass:
      return class_label(sample) == kIgnoredLabel ? 0 : 1;
    case LabelKind::kValue:
      return 1;
    case LabelKind::kToken:
      break;
  }
  const auto labels = token_labels(sample);
  return length(sample) - std::count(labels.begin(), labels.end(), kIgnoredLabel);
}

std::vector<int32_t> Dataset::lengths() const {
  std::vector<int32_t> lengths(static_cast<size_t>(size()));
  for (int64_t i = 0; i < size(); ++i) lengths[static_cast<size_t>(i)] = static_cast<int32_t>(length(i));
  return lengths;
}

std::string Dataset::content_hash() const {
  ContentHash hash;
  const auto add = [&hash](const auto& values) { hash.add(std::as_bytes(std::span(values))); };
  // Offsets say where each of the arrays ends but the labels, which end it.
  add(offsets_);
  add(input_ids_);
  const std::array kinds = {static_cast<uint8_t>(label_shape_.kind),
                            static_cast<uint8_t>(!token_type_ids_.empty())};
  add(kinds);
  add(token_type_ids_);
  add(labels_);
  add(values_);
  return hash.hex();
}

int64_t Dataset::memory_bytes() const {
  return static_cast<int64_t>(offsets_.capacity() * sizeof(int64_t) +
                              input_ids_.capacity() * sizeof(int32_t) + token_type_ids_.capacity() +
                              labels_.capacity() * sizeof(int32_t) + values_.capacity() * sizeof(float));
}

Dataset Dataset::random_tokens(const RandomTokens& options) {
  if (options.count < 1 || options.length < 1) {
    throw user_error("[random_tokens] expected at least one sample and one token, got {} × {}", options.count,
                     options.length);
  }
  if (options.vocab_begin < 0 || options.vocab_end <= options.vocab_begin || options.num_labels < 1) {
    throw user_error(
        "[random_tokens] expected a range of token ids and at least one label, got [{}, {}) and {}",
        options.vocab_begin, options.vocab_end, options.num_labels);
  }
  const bool has_values = options.label_kind == LabelKind::kValue;
  CHECK(has_values || options.label_kind == LabelKind::kClass, "random labels of another kind");
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
    } else {
      const auto draw = philox4x32_10(key, {0, low, high, 1})[0];
      labels.push_back(scale(draw, static_cast<uint32_t>(options.num_labels)));
    }
    builder.add(ids);
  }
  if (has_values) {
    builder.set_value_labels(std::move(values), options.num_labels);
  } else {
    builder.set_class_labels(std::move(labels));
  }
  return builder.finish();
}

Dataset Dataset::alike(int64_t count, int64_t length, LabelShape labels) {
  if (count < 1 || length < 1)
    throw user_error("[alike] expected at least one sample and one token, got {} × {}", count, length);
  DatasetBuilder builder;
  builder.add(std::vector<int32_t>(static_cast<size_t>(length)));
  CHECK(labels.kind == LabelKind::kClass || labels.kind == LabelKind::kValue, "samples without labels");
  if (labels.kind == LabelKind::kClass) {
    builder.set_class_labels({0});
  } else {
    builder.set_value_labels(std::vector<float>(static_cast<size_t>(labels.width)), labels.width);
  }
  Dataset dataset = builder.finish();
  dataset.repeats_ = count;
  return dataset;
}

void DatasetBuilder::reserve(int64_t samples, int64_t tokens) {
  dataset_.offsets_.reserve(static_cast<size_t>(samples) + 1);
  dataset_.input_ids_.reserve(static_cast<size_t>(tokens));
}

void DatasetBuilder::add(std::span<const int32_t> input_ids, std::span<const int32_t> token_types) {
  CHECK(token_types.empty() || token_types.size() == input_ids.size(), "{} token types for {} ids",
        token_types.size(), input_ids.size());
  if (input_ids.empty()) {
    throw user_error("[input_ids] expected at least one token a sample, got none in sample {}", size());
  }
  for (const int32_t id : input_ids) {
    if (id < 0) throw user_error("[input_ids] expected ids of at least 0, got {} in sample {}", id, size());
  }
  auto& types = dataset_.token_type_ids_;
  const bool zeros =
      std::all_of(token_types.begin(), token_types.end(), [](int32_t type) { return type == 0; });
  if (!zeros && types.empty()) types.resize(dataset_.input_ids_.size());
  if (!zeros || !types.empty()) {
    for (size_t i = 0; i < input_ids.size(); ++i) {
      const int32_t type = zeros ? 0 : token_types[i];
      if (type < 0 || type > 255) {
        throw user_error("[token_type_ids] expected types from 0 to 255, got {} in sample {}", type, size());
      }
      types.push_back(static_cast<uint8_t>(type));
    }
  }
  dataset_.input_ids_.insert(dataset_.input_ids_.end(), input_ids.begin(), input_ids.end());
  dataset_.offsets_.push_back(static_cast<int64_t>(dataset_.input_ids_.size()));
  dataset_.max_length_ = std::max(dataset_.max_length_, static_cast<int64_t>(input_ids.size()));
}

void DatasetBuilder::set_class_labels(std::vector<int32_t> labels) {
  CHECK(static_cast<int64_t>(labels.size()) == size(), "{} labels for {} samples", labels.size(), size());
  dataset_.label_shape_ = {LabelKind::kClass};
  dataset_.labels_ = std::move(labels);
}

void DatasetBuilder::set_value_labels(std::vector<float> labels, int64_t width) {
  CHECK(width >= 1 && static_cast<int64_t>(labels.size()) == size() * width,
        "{} labels for {} samples of {} each", labels.size(), size(), width);
  dataset_.label_shape_ = {LabelKind::kValue, width};
  dataset_.values_ = std::move(labels);
}

void DatasetBuilder::set_token_labels(std::vector<int32_t> labels) {
  CHECK(static_cast<int64_t>(labels.size()) == dataset_.token_count(), "{} labels for {} tokens",
        labels.size(), dataset_.token_count());
  dataset_.label_shape_ = {LabelKind::kToken};
  dataset_.labels_ = std::move(labels);
}

Dataset DatasetBuilder::finish() {
  dataset_.offsets_.shrink_to_fit();
  dataset_.input_ids_.shrink_to_fit();
  dataset_.token_type_ids_.shrink_to_fit();
  dataset_.labels_.shrink_to_fit();
  dataset_.values_.shrink_to_fit();
  return std::exchange(dataset_, Dataset());
}

}  // namespace shoehorn
