#include "data/batch.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
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
  for (const int64_t length : {options.pad_to_max_length, options.pad_decoder_to_max_length}) {
    if (length < 0) throw user_error("[pad_to_max_length] expected 0 (packed) or a length, got {}", length);
  }
}

// Slots that each sample takes; 0: as many as it has tokens.
int64_t padded_length(const BatchOptions& options, TokenStream stream) {
  return stream == TokenStream::kInput ? options.pad_to_max_length : options.pad_decoder_to_max_length;
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
    case LabelKind::kNextToken:
      return BatchColumn::kTokenLabels;
    case LabelKind::kDecoderToken:
      return BatchColumn::kDecoderTokenLabels;
  }
  return std::nullopt;
}

bool is_label(BatchColumn column) {
  return column == BatchColumn::kClassLabels || column == BatchColumn::kValueLabels ||
         column == BatchColumn::kTokenLabels || column == BatchColumn::kDecoderTokenLabels;
}

bool is_of_decoder(BatchColumn column) {
  const TokenColumns& of = token_columns(BatchAxis::kDecoderTokens);
  return batch_column_info(column).axis == BatchAxis::kDecoderTokens || column == of.start ||
         column == of.length;
}

// Visits each column that a data set with such labels and of such sizes fills, and the width of its rows, in
// the order of the table.
template <typename Visit>
void for_each_filled_column(const BatchCapacity& capacity, LabelShape labels, const Visit& visit) {
  for (const BatchColumn column : batch_columns()) {
    if (is_label(column) && column != label_column(labels.kind)) continue;
    if (is_of_decoder(column) && capacity.decoder_tokens == 0) continue;
    visit(column, batch_column_info(column).has_rows ? labels.width : int64_t{1});
  }
}

// Elements [begin, begin + count) of a column that is wanted; none of one that is not.
template <typename T>
std::span<T> part_of(std::span<T> column, int64_t begin, int64_t count) {
  return column.empty() ? column : column.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

template <typename T>
void fill(std::span<T> column, int64_t begin, int64_t count, T value) {
  std::ranges::fill(part_of(column, begin, count), value);
}

// The same with value, value + 1, …
void fill_counting(std::span<int32_t> column, int64_t begin, int64_t count, int32_t value) {
  const auto part = part_of(column, begin, count);
  std::iota(part.begin(), part.end(), value);
}

template <typename T>
void set(std::span<T> column, int64_t index, T value) {
  if (!column.empty()) column[static_cast<size_t>(index)] = value;
}

// Of most sources it is known without a look at the sample.
int64_t documents_of(const SampleSource& source, int64_t sample) {
  return source.facts().most_documents == 1 ? 1 : source.document_count(sample);
}

// Packs one stream's tokens, sample after sample.
class StreamPacker {
 public:
  StreamPacker(const Dataset& dataset, TokenStream stream, const BatchOptions& options,
               const MicroBatch& batch)
      : source_(dataset.source()),
        stream_(stream),
        has_labels_(label_column(dataset.label_kind()) == token_columns(axis_of(stream)).labels),
        labels_are_next_tokens_(dataset.label_kind() == LabelKind::kNextToken),
        padded_length_(padded_length(options, stream)),
        pad_token_id_(options.pad_token_id),
        columns_(token_columns(axis_of(stream))),
        ids_(batch.ints(columns_.ids)),
        positions_(batch.ints(columns_.positions)),
        sample_(batch.ints(columns_.sample)),
        start_(batch.ints(columns_.start)),
        length_(batch.ints(columns_.length)),
        labels_(batch.ints(columns_.labels)) {
    if (stream == TokenStream::kInput) token_types_ = batch.ints(BatchColumn::kTokenTypeIds);
  }

  int64_t tokens() const { return tokens_; }

  // `sequence`: its first place among the sequences, which have the numbers from `number` on.
  void add(int64_t sample, int64_t sequence, int32_t number) {
    const int64_t length = source_.length(sample, stream_);
    if (!ids_.empty()) source_.copy_ids(sample, stream_, part_of(ids_, slot_, length));
    if (!token_types_.empty()) source_.copy_token_types(sample, part_of(token_types_, slot_, length));
    if (!labels_.empty() && has_labels_) {
      source_.copy_token_labels(sample, part_of(labels_, slot_, length));
    } else {
      fill(labels_, slot_, length, kIgnoredLabel);
    }
    const int64_t documents = stream_ == TokenStream::kInput ? documents_of(source_, sample) : 1;
    for (int64_t d = 0; d < documents; ++d) {
      const int64_t tokens = documents == 1 ? length : source_.document_length(sample, d);
      add_sequence(sequence + d, number + static_cast<int32_t>(d), tokens);
    }
    tokens_ += length;
    if (padded_length_ == 0) return;
    const int64_t padding = padded_length_ - length;
    CHECK(padding >= 0, "a sample of {} tokens for {} slots", length, padded_length_);
    // A model has positions for a document, not for all of a sample.
    if (source_.facts().most_documents == 1) {
      fill_counting(positions_, slot_, padding, static_cast<int32_t>(length));
    } else {
      fill(positions_, slot_, padding, 0);
    }
    add_padding(padding, number + static_cast<int32_t>(documents - 1));
  }

  // Pads up to a number of slots.
  void finish(int64_t slots) {
    fill(positions_, slot_, slots - slot_, 0);
    add_padding(slots - slot_, 0);
  }

 private:
  void add_sequence(int64_t sequence, int32_t number, int64_t length) {
    fill_counting(positions_, slot_, length, 0);
    fill(sample_, slot_, length, number);
    set(start_, sequence, static_cast<int32_t>(slot_));
    set(length_, sequence, static_cast<int32_t>(length));
    if (labels_are_next_tokens_) move_labels_to_the_token_before(part_of(labels_, slot_, length));
    slot_ += length;
  }

  static void move_labels_to_the_token_before(std::span<int32_t> of_document) {
    if (of_document.empty()) return;
    std::shift_left(of_document.begin(), of_document.end(), 1);
    of_document.back() = kIgnoredLabel;
  }

  // All but the positions.
  void add_padding(int64_t count, int32_t number) {
    fill(ids_, slot_, count, pad_token_id_);
    fill(token_types_, slot_, count, 0);
    fill(sample_, slot_, count, number);
    fill(labels_, slot_, count, kIgnoredLabel);
    slot_ += count;
  }

  const SampleSource& source_;
  TokenStream stream_;
  bool has_labels_;
  bool labels_are_next_tokens_;
  int64_t padded_length_;
  int32_t pad_token_id_;
  const TokenColumns& columns_;
  std::span<int32_t> ids_, positions_, sample_, start_, length_, labels_;
  std::span<int32_t> token_types_;
  int64_t slot_ = 0;
  int64_t tokens_ = 0;
};

// Packs what sequences have besides their tokens.
class SequencePacker {
 public:
  SequencePacker(const Dataset& dataset, const MicroBatch& batch)
      : source_(dataset.source()),
        has_labels_(dataset.label_kind() != LabelKind::kNone),
        number_(batch.ints(BatchColumn::kSequenceSample)),
        position_(batch.ints(BatchColumn::kSequencePosition)),
        class_labels_(batch.ints(BatchColumn::kClassLabels)),
        value_labels_(batch.floats(BatchColumn::kValueLabels)),
        value_width_(batch.width(BatchColumn::kValueLabels)) {}

  int64_t sequences() const { return sequence_; }

  void add(int64_t sample, int32_t number) {
    const int64_t documents = documents_of(source_, sample);
    fill_counting(number_, sequence_, documents, number);
    fill(position_, sequence_, documents, 0);
    add_labels(sample);
    sequence_ += documents;
  }

 private:
  // A sample with such labels is one sequence.
  void add_labels(int64_t sample) {
    if (!class_labels_.empty())
      set(class_labels_, sequence_, has_labels_ ? source_.class_label(sample) : kIgnoredLabel);
    if (value_labels_.empty()) return;
    const int64_t begin = sequence_ * value_width_;
    if (has_labels_) {
      source_.copy_value_labels(sample, part_of(value_labels_, begin, value_width_));
    } else {
      fill(value_labels_, begin, value_width_, 0.0F);
    }
  }

  const SampleSource& source_;
  bool has_labels_;
  std::span<int32_t> number_, position_, class_labels_;
  std::span<float> value_labels_;
  int64_t value_width_;
  int64_t sequence_ = 0;
};

// The slots that the samples take, padding included.
int64_t slots_needed(const Dataset& dataset, TokenStream stream, std::span<const int64_t> samples,
                     const BatchOptions& options) {
  if (dataset.token_count(stream) == 0) return 0;
  int64_t slots = padded_length(options, stream) * std::ssize(samples);
  if (slots == 0) {
    for (const int64_t sample : samples) slots += dataset.length(sample, stream);
  }
  return round_up(slots, options.token_multiple);
}

int64_t sequences_of(const Dataset& dataset, std::span<const int64_t> samples) {
  if (dataset.facts().most_documents == 1) return std::ssize(samples);
  int64_t sequences = 0;
  for (const int64_t sample : samples) sequences += dataset.source().document_count(sample);
  return sequences;
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

namespace {

// Sum of the `count` largest of values that come one by one.
class LargestSum {
 public:
  explicit LargestSum(int64_t count) : count_(static_cast<size_t>(count)) {}

  void add(int64_t value) {
    if (heap_.size() == count_) {
      if (value <= heap_.top()) return;
      sum_ -= heap_.top();
      heap_.pop();
    }
    heap_.push(value);
    sum_ += value;
  }
  int64_t sum() const { return sum_; }

 private:
  size_t count_;
  int64_t sum_ = 0;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> heap_;  // the smallest of them on top
};

// The most tokens that so many samples have together.
int64_t most_tokens(const Dataset& dataset, TokenStream stream, int64_t samples) {
  const int64_t longest = dataset.max_length(stream);
  const bool may_repeat = dataset.source().mixture() != nullptr;  // the longest of a mixture, in one batch
  if (may_repeat || dataset.token_count(stream) == dataset.size() * longest) return samples * longest;
  constexpr int64_t kLengthsAtOnce = 4096;
  std::vector<int32_t> lengths;
  LargestSum most(samples);
  for (int64_t first = 0; first < dataset.size(); first += kLengthsAtOnce) {
    lengths.resize(static_cast<size_t>(std::min(kLengthsAtOnce, dataset.size() - first)));
    dataset.source().copy_lengths(first, stream, lengths);
    for (const int32_t length : lengths) most.add(length);
  }
  return most.sum();
}

int64_t most_sequences(const Dataset& dataset, int64_t samples) {
  const int64_t most_of_a_sample = dataset.facts().most_documents;
  if (most_of_a_sample == 1 || dataset.source().mixture() != nullptr) return samples * most_of_a_sample;
  LargestSum most(samples);
  for (int64_t i = 0; i < dataset.size(); ++i) most.add(dataset.source().document_count(i));
  return most.sum();
}

int64_t most_slots(const Dataset& dataset, TokenStream stream, int64_t samples, const BatchOptions& options) {
  if (dataset.token_count(stream) == 0) return 0;
  const int64_t padded = padded_length(options, stream);
  const int64_t longest = dataset.max_length(stream);
  if (padded > 0 && longest > padded) {
    throw user_error(
        "[pad_to_max_length] expected samples of at most {} tokens, got one of {}; truncate when tokenizing",
        padded, longest);
  }
  const int64_t slots =
      round_up(padded > 0 ? samples * padded : most_tokens(dataset, stream, samples), options.token_multiple);
  if (slots > std::numeric_limits<int32_t>::max()) {
    throw user_error(
        "[per_device_train_batch_size] expected a batch of under 2^31 tokens, got up to {}; lower it", slots);
  }
  return slots;
}

}  // namespace

BatchCapacity micro_batch_capacity(const Dataset& dataset, const BatchOptions& options) {
  check_options(options);
  if (dataset.size() > 0 && dataset.facts().of(TokenStream::kInput).shortest == 0)
    throw user_error(
        "[input_ids] expected at least one token a sample, got texts without; cut blocks of them");
  const int64_t samples = std::min(options.micro_batch_size, dataset.epoch_size());
  return {.tokens = most_slots(dataset, TokenStream::kInput, samples, options),
          .sequences = most_sequences(dataset, samples),
          .longest_sequence = dataset.facts().longest_document,
          .decoder_tokens = most_slots(dataset, TokenStream::kDecoder, samples, options),
          .longest_decoder_sequence = dataset.max_length(TokenStream::kDecoder)};
}

int64_t micro_batch_bytes(const BatchCapacity& capacity, LabelShape labels) {
  int64_t bytes = 0;
  for_each_filled_column(capacity, labels, [&](BatchColumn column, int64_t width) {
    bytes += round_up(column_bytes(column, capacity.of(batch_column_info(column).axis), width), kAlignment);
  });
  return bytes;
}

MicroBatch lay_out_micro_batch(std::span<std::byte> memory, const BatchCapacity& capacity,
                               LabelShape labels) {
  CHECK(std::ssize(memory) >= micro_batch_bytes(capacity, labels), "{} bytes for a micro-batch of {}",
        memory.size(), micro_batch_bytes(capacity, labels));
  MicroBatch batch;
  for_each_filled_column(capacity, labels, [&](BatchColumn column, int64_t width) {
    const int64_t bytes = column_bytes(column, capacity.of(batch_column_info(column).axis), width);
    batch.set(column, memory.first(static_cast<size_t>(bytes)), width);
    memory = memory.subspan(static_cast<size_t>(round_up(bytes, kAlignment)));
  });
  return batch;
}

void pack_micro_batch(const Dataset& dataset, std::span<const int64_t> samples, int64_t first_sequence,
                      const BatchOptions& options, MicroBatch& batch) {
  batch.tokens_padded = slots_needed(dataset, TokenStream::kInput, samples, options);
  batch.decoder_tokens_padded = slots_needed(dataset, TokenStream::kDecoder, samples, options);
  batch.sequences = sequences_of(dataset, samples);
  check_columns(batch, dataset.label_shape());
  SequencePacker sequences(dataset, batch);
  StreamPacker input(dataset, TokenStream::kInput, options, batch);
  StreamPacker decoder(dataset, TokenStream::kDecoder, options, batch);
  for (const int64_t sample : samples) {
    const int64_t sequence = sequences.sequences();
    const auto number = static_cast<int32_t>(first_sequence + sequence);
    sequences.add(sample, number);
    input.add(sample, sequence, number);
    if (dataset.has_decoder_tokens()) decoder.add(sample, sequence, number);
  }
  input.finish(batch.tokens_padded);
  decoder.finish(batch.decoder_tokens_padded);
  batch.tokens = input.tokens();
  batch.decoder_tokens = decoder.tokens();
}

void copy_micro_batch(const MicroBatch& source, MicroBatch& destination) {
  destination.tokens = source.tokens;
  destination.tokens_padded = source.tokens_padded;
  destination.sequences = source.sequences;
  destination.decoder_tokens = source.decoder_tokens;
  destination.decoder_tokens_padded = source.decoder_tokens_padded;
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
