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
  kValue,  // one float a sample or several: what a regression predicts, or 1 for each class of several
  kToken,  // one int32 a token, at the token whose output is to predict it
};

// What a data set has as labels. Two that are equal go through the same programs.
struct LabelShape {
  LabelKind kind = LabelKind::kNone;
  int64_t width = 1;  // of kValue: values a sample

  bool operator==(const LabelShape&) const = default;
};

// The label that no loss counts, as in PyTorch.
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
  // input_ids: rows. token_type_ids, attention_mask: rows of the same lengths; a mask must be ones and then
  // zeros, and what it masks is dropped. labels (or label, label_ids): an integer or a float a sample,
  // rows of floats that are all as long, or rows of integers, one a token. UserError, which names column and
  // row: an unknown or doubled column, none, lengths that differ, an empty row, an id that is negative or
  // over 31 bits, a token type over 8 bits, a mask that is no prefix, a label below 0 that is not -100, a
  // label of a masked token.
  static Dataset from_columns(const NamedColumns& columns);

  // UserError if the count, the length or the range is empty.
  static Dataset random_tokens(const RandomTokens& options);

  // `count` samples that are all alike, of `length` tokens 0 and of labels 0, in the memory of one: for plans.
  // UserError: a count or length that is empty. CHECKs that the labels are of samples.
  static Dataset alike(int64_t count, int64_t length, LabelShape labels = {LabelKind::kClass});

  int64_t size() const { return distinct_size() * repeats_; }
  int64_t token_count() const { return offsets_.back() * repeats_; }
  // The first so many samples are kept; the others are these again.
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

  // ContentHash (base/content_hash.h) of all samples in their order: ids, token types and labels.
  std::string content_hash() const;

  // Bytes of the arrays, which is what the data set holds while it lives.
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

// Makes a Dataset sample by sample. Arrays grow by doubling while they are built and are cut to size by
// finish().
class DatasetBuilder {
 public:
  void reserve(int64_t samples, int64_t tokens);

  // `token_types`: as many as ids, or none for zeros. UserError, which names the sample: empty, an id below
  // 0, a token type outside 0 … 255.
  void add(std::span<const int32_t> input_ids, std::span<const int32_t> token_types = {});

  int64_t size() const { return dataset_.size(); }

  void set_class_labels(std::vector<int32_t> labels);                   // one a sample
  void set_value_labels(std::vector<float> labels, int64_t width = 1);  // `width` a sample, end to end
  void set_token_labels(std::vector<int32_t> labels);                   // one a token, all samples end to end

  Dataset finish();

 private:
  Dataset dataset_;
};

}  // namespace shoehorn
