#include "data/batch.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/rounding.h"

namespace shoehorn {
namespace {

constexpr int64_t kAlignment = 64;

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

// The column with a data set's labels.
std::optional<BatchColumn> label_column(LabelKind labels) {
  switch (labels) {
    case LabelKind::kNone:
      return std::nullopt;
    case LabelKind::kClass:
      return BatchColumn::kClassLabels;
    case LabelKind::kValue:
      return BatchColumn::kValueLabels;
    case LabelKind::kToken:
      return BatchColumn::kTokenLabels;
  }
  return std::nullopt;
}

bool is_label(BatchColumn column) {
  return column == BatchColumn::kClassLabels || column == BatchColumn::kValueLabels ||
         column == BatchColumn::kTokenLabels;
}

// Visits each column that a data set with such labels fills, and the width of its rows, in the order of the table.
template <typename Visit>
void for_each_filled_column(LabelShape labels, const Visit& visit) {
  for (const BatchColumn column : batch_columns()) {
    if (is_label(column) && column != label_column(labels.kind)) continue;
    visit(column, batch_column_info(column).has_rows ? labels.width : int64_t{1});
  }
}

// Fills elements [begin, begin + count) of a column that is wanted.
template <typename T>
void fill(std::span<T> column, int64_t begin, int64_t count, T value) {
  if (!column.empty())
    std::ranges::fill(column.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), value);
}

// The same with value, value + 1, …
void fill_counting(std::span<int32_t> column, int64_t begin, int64_t count, int32_t value) {
  if (column.empty()) return;
  const auto part = column.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  std::iota(part.begin(), part.end(), value);
}

template <typename Element, typename Value>
void copy_into(std::span<Element> column, int64_t begin, std::span<const Value> values) {
  if (!column.empty()) std::ranges::copy(values, column.begin() + begin);
}

template <typename T>
void set(std::span<T> column, int64_t index, T value) {
  if (!column.empty()) column[static_cast<size_t>(index)] = value;
}

// Packs samples one after the other.
class Packer {
 public:
  Packer(const Dataset& dataset, const BatchOptions& options, const MicroBatch& batch)
      : dataset_(dataset),
        options_(options),
        input_ids_(batch.ints(BatchColumn::kInputIds)),
        token_type_ids_(batch.ints(BatchColumn::kTokenTypeIds)),
        position_ids_(batch.ints(BatchColumn::kPositionIds)),
        token_sample_(batch.ints(BatchColumn::kTokenSample)),
        sequence_start_(batch.ints(BatchColumn::kSequenceStart)),
        sequence_length_(batch.ints(BatchColumn::kSequenceLength)),
        sequence_sample_(batch.ints(BatchColumn::kSequenceSample)),
        sequence_position_(batch.ints(BatchColumn::kSequencePosition)),
        class_labels_(batch.ints(BatchColumn::kClassLabels)),
        value_labels_(batch.floats(BatchColumn::kValueLabels)),
        token_labels_(batch.ints(BatchColumn::kTokenLabels)),
        value_width_(batch.width(BatchColumn::kValueLabels)) {}

  void add(int64_t sample, int32_t number) {
    const int64_t length = dataset_.length(sample);
    copy_into(input_ids_, slot_, dataset_.input_ids(sample));
    const auto types = dataset_.token_type_ids(sample);
    if (types.empty()) {
      fill(token_type_ids_, slot_, length, 0);
    } else {
      copy_into(token_type_ids_, slot_, types);
    }
    fill_counting(position_ids_, slot_, length, 0);
    fill(token_sample_, slot_, length, number);
    set(sequence_start_, sequence_, static_cast<int32_t>(slot_));
    set(sequence_length_, sequence_, static_cast<int32_t>(length));
    set(sequence_sample_, sequence_, number);
    set(sequence_position_, sequence_, 0);
    add_labels(sample, length);
    slot_ += length;
    ++sequence_;
    if (options_.pad_to_max_length == 0) return;
    const int64_t padding = options_.pad_to_max_length - length;
    CHECK(padding >= 0, "a sample of {} tokens for sequences of {}", length, options_.pad_to_max_length);
    fill_counting(position_ids_, slot_, padding, static_cast<int32_t>(length));
    add_padding(padding, number);
  }

  // Pads up to a number of slots.
  void finish(int64_t slots) {
    fill(position_ids_, slot_, slots - slot_, 0);
    add_padding(slots - slot_, 0);
  }

 private:
  void add_labels(int64_t sample, int64_t length) {
    const bool has_labels = dataset_.label_kind() != LabelKind::kNone;
    if (!class_labels_.empty())
      set(class_labels_, sequence_, has_labels ? dataset_.class_label(sample) : kIgnoredLabel);
    if (!value_labels_.empty()) {
      const int64_t begin = sequence_ * value_width_;
      if (has_labels) {
        copy_into(value_labels_, begin, dataset_.value_labels(sample));
      } else {
        fill(value_labels_, begin, value_width_, 0.0F);
      }
    }
    if (has_labels && !token_labels_.empty()) {
      copy_into(token_labels_, slot_, dataset_.token_labels(sample));
    } else {
      fill(token_labels_, slot_, length, kIgnoredLabel);
    }
  }

  // All but the positions.
  void add_padding(int64_t count, int32_t number) {
    fill(input_ids_, slot_, count, options_.pad_token_id);
    fill(token_type_ids_, slot_, count, 0);
    fill(token_sample_, slot_, count, number);
    fill(token_labels_, slot_, count, kIgnoredLabel);
    slot_ += count;
  }

  const Dataset& dataset_;
  const BatchOptions& options_;
  std::span<int32_t> input_ids_, token_type_ids_, position_ids_, token_sample_;
  std::span<int32_t> sequence_start_, sequence_length_, sequence_sample_, sequence_position_;
  std::span<int32_t> class_labels_;
  std::span<float> value_labels_;
  std::span<int32_t> token_labels_;
  int64_t value_width_;
  int64_t slot_ = 0;
  int64_t sequence_ = 0;
};

// The slots that the samples take, padding included.
int64_t slots_needed(const Dataset& dataset, std::span<const int64_t> samples, const BatchOptions& options) {
  int64_t slots = 0;
  for (const int64_t sample : samples) {
    slots += options.pad_to_max_length > 0 ? options.pad_to_max_length : dataset.length(sample);
  }
  return round_up(slots, options.token_multiple);
}

void check_columns(const MicroBatch& batch, LabelShape labels) {
  for (const BatchColumn column : batch_columns()) {
    if (!batch.has(column)) continue;
    const BatchColumnInfo& info = batch_column_info(column);
    const int64_t needed = column_bytes(column, batch.count(info.axis), batch.width(column));
    CHECK(std::ssize(batch.bytes(column)) >= needed, "column {} of {} bytes for {}", info.name,
          batch.bytes(column).size(), needed);
    if (!is_label(column) || labels.kind == LabelKind::kNone) continue;
    CHECK(column == label_column(labels.kind) && (!info.has_rows || batch.width(column) == labels.width),
          "column {} of a data set with other labels", info.name);
  }
}

}  // namespace

BatchCapacity micro_batch_capacity(const Dataset& dataset, const BatchOptions& options) {
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
  return {tokens, sequences, dataset.max_length()};
}

int64_t micro_batch_bytes(const BatchCapacity& capacity, LabelShape labels) {
  int64_t bytes = 0;
  for_each_filled_column(labels, [&](BatchColumn column, int64_t width) {
    bytes += round_up(column_bytes(column, capacity.of(batch_column_info(column).axis), width), kAlignment);
  });
  return bytes;
}

MicroBatch lay_out_micro_batch(std::span<std::byte> memory, const BatchCapacity& capacity,
                               LabelShape labels) {
  CHECK(std::ssize(memory) >= micro_batch_bytes(capacity, labels), "{} bytes for a micro-batch of {}",
        memory.size(), micro_batch_bytes(capacity, labels));
  MicroBatch batch;
  for_each_filled_column(labels, [&](BatchColumn column, int64_t width) {
    const int64_t bytes = column_bytes(column, capacity.of(batch_column_info(column).axis), width);
    batch.set(column, memory.first(static_cast<size_t>(bytes)), width);
    memory = memory.subspan(static_cast<size_t>(round_up(bytes, kAlignment)));
  });
  return batch;
}

void pack_micro_batch(const Dataset& dataset, std::span<const int64_t> samples, int64_t first_sample,
                      const BatchOptions& options, MicroBatch& batch) {
  batch.tokens_padded = slots_needed(dataset, samples, options);
  batch.sequences = std::ssize(samples);
  batch.tokens = 0;
  check_columns(batch, dataset.label_shape());
  Packer packer(dataset, options, batch);
  for (size_t s = 0; s < samples.size(); ++s) {
    packer.add(samples[s], static_cast<int32_t>(first_sample + static_cast<int64_t>(s)));
    batch.tokens += dataset.length(samples[s]);
  }
  packer.finish(batch.tokens_padded);
}

void copy_micro_batch(const MicroBatch& source, MicroBatch& destination) {
  destination.tokens = source.tokens;
  destination.tokens_padded = source.tokens_padded;
  destination.sequences = source.sequences;
  for (const BatchColumn column : batch_columns()) {
    if (!destination.has(column)) continue;
    const BatchColumnInfo& info = batch_column_info(column);
    const int64_t width = destination.width(column);
    CHECK(source.width(column) == width, "column {}: rows of {} into rows of {}", info.name,
          source.width(column), width);
    const auto bytes = static_cast<size_t>(column_bytes(column, source.count(info.axis), width));
    CHECK(source.bytes(column).size() >= bytes && destination.bytes(column).size() >= bytes,
          "column {}: {} of {} bytes into {}", info.name, bytes, source.bytes(column).size(),
          destination.bytes(column).size());
    std::ranges::copy(source.bytes(column).first(bytes), destination.bytes(column).begin());
  }
}

}  // namespace shoehorn
