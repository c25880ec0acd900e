#include "data/batch.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr int64_t kAlignment = 64;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void check_options(const BatchOptions& options) {
  const auto at_least_one = [](std::string_view name, int64_t value) {
    if (value < 1) throw user_error("[{}] expected at least 1, got {}", name, value);
  };
  at_least_one("per_device_train_batch_size", options.micro_batch_size);
  at_least_one("gradient_accumulation_steps", options.gradient_accumulation_steps);
  at_least_one("token_multiple", options.token_multiple);
  if (options.pad_to_max_length < 0) {
    throw user_error("[pad_to_max_length] expected 0 (packed) or a length, got {}",
                     options.pad_to_max_length);
  }
}

// The arrays that a data set with such labels uses, each with its number of elements: the one list behind
// layout, size and copy. visit(span of the batch, elements).
template <typename Batch, typename Visit>
void for_each_array(Batch& batch, LabelKind labels, int64_t tokens, int64_t sequences, const Visit& visit) {
  visit(batch.input_ids, tokens);
  visit(batch.token_type_ids, tokens);
  visit(batch.position_ids, tokens);
  visit(batch.token_sample, tokens);
  visit(batch.sequence_start, sequences);
  visit(batch.sequence_length, sequences);
  if (labels == LabelKind::kClass) visit(batch.class_labels, sequences);
  if (labels == LabelKind::kValue) visit(batch.value_labels, sequences);
  if (labels == LabelKind::kToken) visit(batch.token_labels, tokens);
}

template <typename T>
std::span<T> part(std::span<T> array, int64_t begin, int64_t count) {
  return array.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

// Fills slots [begin, begin + count) that hold no token. `position` is the first one's, and `step` 0 or 1
// from slot to slot.
void fill_padding(MicroBatch& batch, int64_t begin, int64_t count, int32_t pad_token_id, int32_t position,
                  int32_t step, int32_t sample) {
  std::ranges::fill(part(batch.input_ids, begin, count), pad_token_id);
  std::ranges::fill(part(batch.token_type_ids, begin, count), 0);
  std::ranges::fill(part(batch.token_sample, begin, count), sample);
  for (int32_t& p : part(batch.position_ids, begin, count)) {
    p = position;
    position += step;
  }
}

// The slots that the samples take, padding included. Checks that there is room for them.
int64_t slots_needed(const Dataset& dataset, std::span<const int64_t> samples, const BatchOptions& options,
                     const MicroBatch& batch) {
  int64_t slots = 0;
  for (const int64_t sample : samples) {
    slots += options.pad_to_max_length > 0 ? options.pad_to_max_length : dataset.length(sample);
  }
  slots = round_up(slots, options.token_multiple);
  for_each_array(batch, dataset.label_kind(), slots, static_cast<int64_t>(samples.size()),
                 [](const auto& array, int64_t needed) {
                   CHECK(static_cast<int64_t>(array.size()) >= needed, "an array of {} elements for {}",
                         array.size(), needed);
                 });
  return slots;
}

void pack_labels(const Dataset& dataset, int64_t sample, int64_t sequence, int64_t start, MicroBatch& batch) {
  switch (dataset.label_kind()) {
    case LabelKind::kNone:
      break;
    case LabelKind::kClass:
      batch.class_labels[static_cast<size_t>(sequence)] = dataset.class_label(sample);
      break;
    case LabelKind::kValue:
      batch.value_labels[static_cast<size_t>(sequence)] = dataset.value_label(sample);
      break;
    case LabelKind::kToken:
      std::ranges::copy(dataset.token_labels(sample), batch.token_labels.begin() + start);
      break;
  }
}

}  // namespace

MicroBatchCapacity micro_batch_capacity(const Dataset& dataset, const BatchOptions& options) {
  check_options(options);
  const int64_t sequences = std::min(options.micro_batch_size, dataset.size());
  int64_t slots = 0;
  if (options.pad_to_max_length > 0) {
    if (dataset.max_length() > options.pad_to_max_length) {
      throw user_error(
          "[pad_to_max_length] expected samples of at most {} tokens, got one of {}; truncate when "
          "tokenizing",
          options.pad_to_max_length, dataset.max_length());
    }
    slots = sequences * options.pad_to_max_length;
  } else if (dataset.token_count() == dataset.size() * dataset.max_length()) {
    slots = sequences * dataset.max_length();
  } else {
    std::vector<int32_t> lengths = dataset.lengths();
    std::nth_element(lengths.begin(), lengths.begin() + sequences, lengths.end(), std::greater<>());
    slots = std::accumulate(lengths.begin(), lengths.begin() + sequences, int64_t{0});
  }
  const int64_t tokens = round_up(slots, options.token_multiple);
  if (tokens > std::numeric_limits<int32_t>::max()) {
    throw user_error(
        "[per_device_train_batch_size] expected a batch of under 2^31 tokens, got up to {}; lower it",
        tokens);
  }
  return {tokens, sequences};
}

int64_t micro_batch_bytes(const MicroBatchCapacity& capacity, LabelKind labels) {
  int64_t bytes = 0;
  const MicroBatch none;
  for_each_array(none, labels, capacity.tokens, capacity.sequences, [&](const auto& array, int64_t elements) {
    bytes = round_up(bytes, kAlignment) + elements * static_cast<int64_t>(sizeof(array[0]));
  });
  return round_up(bytes, kAlignment);
}

MicroBatch lay_out_micro_batch(std::span<std::byte> memory, const MicroBatchCapacity& capacity,
                               LabelKind labels) {
  CHECK(static_cast<int64_t>(memory.size()) >= micro_batch_bytes(capacity, labels),
        "{} bytes for a micro-batch of {}", memory.size(), micro_batch_bytes(capacity, labels));
  MicroBatch batch;
  int64_t offset = 0;
  for_each_array(batch, labels, capacity.tokens, capacity.sequences, [&](auto& array, int64_t elements) {
    using Element = typename std::remove_cvref_t<decltype(array)>::element_type;
    offset = round_up(offset, kAlignment);
    array = {reinterpret_cast<Element*>(memory.data() + offset), static_cast<size_t>(elements)};
    offset += elements * static_cast<int64_t>(sizeof(Element));
  });
  return batch;
}

void pack_micro_batch(const Dataset& dataset, std::span<const int64_t> samples, int64_t first_sample,
                      const BatchOptions& options, MicroBatch& batch) {
  batch.tokens_padded = slots_needed(dataset, samples, options, batch);
  if (dataset.label_kind() == LabelKind::kToken) {
    std::ranges::fill(part(batch.token_labels, 0, batch.tokens_padded), kIgnoredLabel);
  }
  int64_t start = 0;
  batch.tokens = 0;
  batch.sequences = static_cast<int64_t>(samples.size());
  for (int64_t s = 0; s < batch.sequences; ++s) {
    const int64_t sample = samples[static_cast<size_t>(s)];
    const int64_t length = dataset.length(sample);
    const auto number = static_cast<int32_t>(first_sample + s);
    const auto types = dataset.token_type_ids(sample);
    std::ranges::copy(dataset.input_ids(sample), batch.input_ids.begin() + start);
    if (types.empty()) {
      std::ranges::fill(part(batch.token_type_ids, start, length), 0);
    } else {
      std::ranges::copy(types, batch.token_type_ids.begin() + start);
    }
    const auto positions = part(batch.position_ids, start, length);
    std::iota(positions.begin(), positions.end(), 0);
    std::ranges::fill(part(batch.token_sample, start, length), number);
    batch.sequence_start[static_cast<size_t>(s)] = static_cast<int32_t>(start);
    batch.sequence_length[static_cast<size_t>(s)] = static_cast<int32_t>(length);
    pack_labels(dataset, sample, s, start, batch);
    batch.tokens += length;
    start += length;
    if (options.pad_to_max_length > 0) {
      const int64_t padding = options.pad_to_max_length - length;
      CHECK(padding >= 0, "a sample of {} tokens for sequences of {}", length, options.pad_to_max_length);
      fill_padding(batch, start, padding, options.pad_token_id, static_cast<int32_t>(length), 1, number);
      start += padding;
    }
  }
  fill_padding(batch, start, batch.tokens_padded - start, options.pad_token_id, 0, 0, 0);
}

void copy_micro_batch(const MicroBatch& source, LabelKind labels, MicroBatch& destination) {
  // Both lists have the same arrays in the same order.
  std::span<const std::byte> parts[9];
  size_t count = 0;
  for_each_array(source, labels, source.tokens_padded, source.sequences,
                 [&](const auto& array, int64_t elements) {
                   parts[count++] = std::as_bytes(array.first(static_cast<size_t>(elements)));
                 });
  count = 0;
  for_each_array(destination, labels, source.tokens_padded, source.sequences,
                 [&](const auto& array, int64_t elements) {
                   CHECK(static_cast<int64_t>(array.size()) >= elements, "an array of {} elements for {}",
                         array.size(), elements);
                   std::ranges::copy(parts[count++], std::as_writable_bytes(array).begin());
                 });
  destination.tokens = source.tokens;
  destination.tokens_padded = source.tokens_padded;
  destination.sequences = source.sequences;
}

}  // namespace shoehorn
