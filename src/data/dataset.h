// Tokenized samples, ready to be packed.
//
// A Dataset is a handle of a SampleSource (data/sample_source.h), as Hugging Face's Dataset is one of a table
// that may lie in memory or on a disk: a copy is of the handle. It is immutable and may be read by any number
// of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/memory_source.h"
#include "data/sample_source.h"

namespace shoehorn {

// Tokens and labels that follow from the seed (Philox), for benchmarks: token ids in [vocab_begin,
// vocab_end); of kClass labels in [0, num_labels), of kValue so many of 0 or 1, of kNextToken the ids.
struct RandomTokens {
  int64_t count = 512;
  int64_t length = 512;
  int32_t vocab_begin = 100;
  int32_t vocab_end = 30000;
  int32_t num_labels = 2;
  LabelKind label_kind = LabelKind::kClass;  // or kValue or kNextToken
  uint64_t seed = 42;
};

class Dataset {
 public:
  using Rows = std::vector<std::vector<int64_t>>;
  using ValueRows = std::vector<std::vector<float>>;
  using ColumnData =
      std::variant<Rows, std::vector<int64_t>, std::vector<double>, std::vector<float>, ValueRows>;
  using NamedColumns = std::vector<std::pair<std::string, ColumnData>>;

  Dataset();  // without samples, as one that was moved from
  explicit Dataset(std::shared_ptr<const SampleSource> source);
  Dataset(const Dataset&) = default;
  Dataset(Dataset&& other) noexcept;
  Dataset& operator=(const Dataset&) = default;
  Dataset& operator=(Dataset&& other) noexcept;
  ~Dataset() = default;

  // The counterpart of Hugging Face's Dataset.from_dict:
  //   Dataset::from_columns({{"input_ids", ids}, {"labels", labels}})
  // input_ids: rows. token_type_ids, attention_mask: rows of the same lengths; a mask must be ones and then
  // zeros, and what it masks is dropped. position_ids: rows of the same lengths that count 0, 1, 2, …; where
  // one begins at 0 again, so does another document, which is a sequence of its own. decoder_input_ids: rows
  // of lengths of their own, as decoder_attention_mask. labels (or label, label_ids): an integer or a float a
  // sample, rows of floats that are all as long, or rows of integers, one a token: of the decoder where it
  // has tokens, else of the input. UserError, which names column and row: an unknown or doubled column, none,
  // lengths that differ, an empty row, an id that is negative or over 31 bits, a token type over 8 bits, a
  // mask that is no prefix, a label below 0 that is not -100, a label of a masked token, positions that do
  // not count, several documents with a decoder's tokens or with labels of samples.
  static Dataset from_columns(const NamedColumns& columns);

  // UserError if the count, the length or the range is empty.
  static Dataset random_tokens(const RandomTokens& options);

  // `count` samples that are all alike, of `length` tokens 0 (and `decoder_length` of a decoder) and of
  // labels 0, in the memory of one: for plans. UserError: a count or length that is empty. CHECKs that there
  // are labels.
  static Dataset alike(int64_t count, int64_t length, LabelShape labels = {LabelKind::kClass},
                       int64_t decoder_length = 0);

  // The same samples for a causal language model: each token is to predict the next one of its document, or what a
  // row of labels has in its place. Labels of tokens stand where Hugging Face has them, at the token that they name;
  // -100 is no target. UserError: labels of samples, or tokens of a decoder.
  //   Dataset::next_token(Dataset::from_columns({{"input_ids", ids}}))
  static Dataset next_token(const Dataset& dataset);

  const SampleSource& source() const { return *source_; }
  const std::shared_ptr<const SampleSource>& shared_source() const { return source_; }
  const SourceFacts& facts() const { return source_->facts(); }

  int64_t size() const { return facts().size; }
  int64_t distinct_size() const { return source_->distinct_size(); }
  // Samples that an epoch of training draws: size(), or what a mixture says (data/mixture.h).
  int64_t epoch_size() const;
  int64_t token_count(TokenStream stream = TokenStream::kInput) const { return facts().of(stream).tokens; }
  int64_t max_length(TokenStream stream = TokenStream::kInput) const { return facts().of(stream).longest; }
  bool has_decoder_tokens() const { return token_count(TokenStream::kDecoder) > 0; }

  int64_t length(int64_t sample, TokenStream stream = TokenStream::kInput) const {
    return source_->length(sample, stream);
  }
  std::vector<int32_t> lengths() const;  // of the input
  // Copies of what a sample has, to be looked at.
  std::vector<int32_t> input_ids(int64_t sample) const { return ids(sample, TokenStream::kInput); }
  std::vector<int32_t> decoder_input_ids(int64_t sample) const { return ids(sample, TokenStream::kDecoder); }
  std::vector<int32_t> token_type_ids(int64_t sample) const;
  std::vector<float> value_labels(int64_t sample) const;
  std::vector<int32_t> token_labels(int64_t sample) const;  // of kNextToken at their own tokens

  LabelKind label_kind() const { return facts().labels.kind; }
  LabelShape label_shape() const { return facts().labels; }
  int32_t class_label(int64_t sample) const { return source_->class_label(sample); }

  // The number of targets of a sample, by whose sum the loss is divided: its labels other than -100, or 1 if
  // its labels are values; of next tokens those that are not the first of a document; 0 without labels.
  int64_t target_items(int64_t sample) const;

  std::string content_hash(const ByteProgress& on_progress = {}) const {
    return source_->content_hash(on_progress);
  }
  // Bytes of memory that the samples take while they live.
  int64_t memory_bytes() const { return source_->memory_bytes(); }

 private:
  std::vector<int32_t> ids(int64_t sample, TokenStream stream) const;

  std::shared_ptr<const SampleSource> source_;
};

// The decoder's tokens that predict `labels`, as Hugging Face's models make them: `decoder_start_token_id`, then all
// labels of a row but its last, with `pad_token_id` in place of -100.
Dataset::Rows shift_tokens_right(const Dataset::Rows& labels, int64_t pad_token_id,
                                 int64_t decoder_start_token_id);

// A sample for a data set under construction. The views are valid during the call that takes it.
struct NewSample {
  std::span<const int32_t> input_ids = {};
  std::span<const int32_t> token_type_ids = {};     // as many as input_ids, or none for zeros
  std::span<const int32_t> decoder_input_ids = {};  // of every sample or of none
  std::span<const int32_t> document_lengths = {};   // none: the input is one document
  bool may_be_empty = false;                        // a text that blocks are cut from may have no tokens
};

// UserError, which names `index` as the sample: no tokens, an id below 0, a token type outside 0 … 255.
// CHECKs the sizes.
void check_sample(const NewSample& sample, int64_t index);

// Makes a Dataset in memory sample by sample. Arrays of tokens grow in place (base/growing_array.h) while they are built and
// are cut to size by finish().
class DatasetBuilder {
 public:
  void reserve(int64_t samples, int64_t tokens);

  // UserError: that of check_sample, and a sample with decoder's tokens among samples without.
  void add(const NewSample& sample);
  void add(std::span<const int32_t> input_ids, std::span<const int32_t> token_type_ids = {}) {
    add({.input_ids = input_ids, .token_type_ids = token_type_ids});
  }

  int64_t size() const { return source_.distinct_size(); }
  // Of what was added, with the room to grow.
  int64_t memory_bytes() const { return source_.memory_bytes(); }

  void set_class_labels(std::vector<int32_t> labels);                   // one a sample
  void set_value_labels(std::vector<float> labels, int64_t width = 1);  // `width` a sample, end to end
  // One a token of the stream, all samples end to end.
  void set_token_labels(std::vector<int32_t> labels, TokenStream stream = TokenStream::kInput);

  Dataset finish();

 private:
  friend class Dataset;

  void append_ids(TokenStream stream, std::span<const int32_t> ids);
  void append_token_types(const NewSample& sample);
  void append_documents(const NewSample& sample);

  MemorySource source_;
};

}  // namespace shoehorn
