// Tokenized samples, ready to be packed: flat arrays without padding.
//
// N tokens in all, n samples. Per token: int32 id, uint8 token type (no array where all are 0), int32 label
// (for labels per token). Per sample: int64 offset, int32 label or float labels. A Dataset is immutable once made,
// movable, and may be read by any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shoehorn {

enum class LabelKind : uint8_t {
  kNone,
  kClass,  // one int32 a sample
  kValue,  // one float per sample, or several: regression values, or multi-label targets of 0 and 1
  kToken,  // one int32 per token, at the token whose output predicts it
};

// The kind of labels of a data set. Data sets with equal shapes can use the same programs.
struct LabelShape {
  LabelKind kind = LabelKind::kNone;
  int64_t width = 1;  // kValue only: values per sample

  bool operator==(const LabelShape&) const = default;
};

// The label that losses ignore, as in PyTorch.
inline constexpr int32_t kIgnoredLabel = -100;

// Random tokens and labels that depend on the seed only (Philox), for benchmarks. Token ids are in
// [vocab_begin, vocab_end). Labels: kClass one in [0, num_labels); kValue num_labels values of 0 or 1.
struct RandomTokens {
  int64_t count = 512;
  int64_t length = 512;
  int32_t vocab_begin = 100;
  int32_t vocab_end = 30000;
  int32_t num_labels = 2;
  LabelKind label_kind = LabelKind::kClass;  // or kValue
  uint64_t seed = 42;
};

class Dataset {
 public:
  using Rows = std::vector<std::vector<int64_t>>;
  using ValueRows = std::vector<std::vector<float>>;
  using ColumnData =
      std::variant<Rows, std::vector<int64_t>, std::vector<double>, std::vector<float>, ValueRows>;
  using NamedColumns = std::vector<std::pair<std::string, ColumnData>>;

  Dataset() = default;

  // The counterpart of Hugging Face's Dataset.from_dict:
  //   Dataset::from_columns({{"input_ids", ids}, {"labels", labels}})
  // input_ids: one row per sample. token_type_ids, attention_mask: rows of the same lengths; a mask is ones
  // followed by zeros, and masked tokens are dropped. labels (or label, label_ids): one integer or float per
  // sample, rows of floats of equal length, or rows of integers with one per token. UserError naming column
  // and row: an unknown, duplicate or missing column, lengths that differ, an empty row, an id that is
  // negative or over 31 bits, a token type over 8 bits, a mask with a one behind a zero, a negative label
  // other than -100, a label of a masked token.
  static Dataset from_columns(const NamedColumns& columns);

  // UserError if the count, the length or the range is empty.
  static Dataset random_tokens(const RandomTokens& options);

  // `count` equal samples of `length` tokens 0 and labels 0, which take the memory of one: a stand-in for
  // planning. UserError if a count or length is 0. CHECKs that the labels are per sample.
  static Dataset alike(int64_t count, int64_t length, LabelShape labels = {LabelKind::kClass});

  int64_t size() const { return distinct_size() * repeats_; }
  int64_t token_count() const { return offsets_.back() * repeats_; }
  // Samples that are stored. Sample i is a copy of sample i % distinct_size().
  int64_t distinct_size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t max_length() const { return max_length_; }

  int64_t length(int64_t sample) const { return offset(row(sample) + 1) - offset(row(sample)); }
  std::span<const int32_t> input_ids(int64_t sample) const { return slice<int32_t>(input_ids_, sample); }
  // Empty if every token type of the data set is 0.
  std::span<const uint8_t> token_type_ids(int64_t sample) const {
    return slice<uint8_t>(token_type_ids_, sample);
  }

  LabelKind label_kind() const { return label_shape_.kind; }
  LabelShape label_shape() const { return label_shape_; }
  int32_t class_label(int64_t sample) const { return labels_[static_cast<size_t>(row(sample))]; }
  std::span<const float> value_labels(int64_t sample) const {
    const auto width = static_cast<size_t>(label_shape_.width);
    return std::span(values_).subspan(static_cast<size_t>(row(sample)) * width, width);
  }
  std::span<const int32_t> token_labels(int64_t sample) const { return slice<int32_t>(labels_, sample); }

  // The number of targets of a sample, by whose sum the loss is divided: its labels other than -100, or 1 if
  // its labels are values; 0 without labels.
  int64_t target_items(int64_t sample) const;

  std::vector<int32_t> lengths() const;

  // ContentHash (base/content_hash.h) of all samples in order: ids, token types and labels.
  std::string content_hash() const;

  // Size of the arrays: the memory that the data set holds.
  int64_t memory_bytes() const;

 private:
  friend class DatasetBuilder;

  int64_t row(int64_t sample) const { return repeats_ == 1 ? sample : sample % distinct_size(); }
  int64_t offset(int64_t row) const { return offsets_[static_cast<size_t>(row)]; }

  template <typename T>
  std::span<const T> slice(const std::vector<T>& values, int64_t sample) const {
    if (values.empty()) return {};
    return std::span(values).subspan(static_cast<size_t>(offset(row(sample))),
                                     static_cast<size_t>(length(sample)));
  }

  int64_t repeats_ = 1;
  std::vector<int64_t> offsets_ = {0};
  std::vector<int32_t> input_ids_;
  std::vector<uint8_t> token_type_ids_;
  LabelShape label_shape_;
  std::vector<int32_t> labels_;
  std::vector<float> values_;
  int64_t max_length_ = 0;
};

// Builds a Dataset sample by sample. Arrays grow by doubling; finish() trims them.
class DatasetBuilder {
 public:
  void reserve(int64_t samples, int64_t tokens);

  // `token_types` has one element per id, or is empty (all 0). UserError naming the sample: no tokens, a
  // negative id, a token type outside of 0 … 255.
  void add(std::span<const int32_t> input_ids, std::span<const int32_t> token_types = {});

  int64_t size() const { return dataset_.size(); }

  void set_class_labels(std::vector<int32_t> labels);                   // one per sample
  void set_value_labels(std::vector<float> labels, int64_t width = 1);  // `width` per sample, end to end
  void set_token_labels(std::vector<int32_t> labels);                   // one per token, end to end

  Dataset finish();

 private:
  Dataset dataset_;
};

}  // namespace shoehorn
