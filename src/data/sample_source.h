// Where the samples of a data set come from: the seam between how they are kept and who reads them (the
// packer, windows, samplers, checks of labels, the hash that a checkpoint keeps).
//
//   MemorySource     (data/memory_source.h)      flat arrays in memory
//   ShardSource      (data/shard_source.h)       files of tokens, read sample by sample
//   BlockSource      (data/block_source.h)       blocks that are cut from the samples of one of these
//   NextTokenSource  (data/next_token_source.h)  samples of another source, whose labels are their next tokens
//   JoinedSource     (data/joined_source.h)      samples of several sources, end to end or drawn by weight
//
// A sample has a row of tokens in each of two streams: those of the input, and those that a decoder reads, if
// there are any. Labels are of the sample, or of each token of one stream. The input may be several documents
// end to end: each is a sequence of its own, which attends to nothing of the others and whose positions begin
// at 0.
//
// A source is immutable and may be read by any number of threads. Reading a sample allocates nothing. Indices
// of samples are below size(); spans that are filled are as long as what is copied.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace shoehorn {

class Mixture;

// Told of the bytes that are done, out of all.
using ByteProgress = std::function<void(int64_t done, int64_t bytes)>;

// Whose tokens: the input of an encoder or of a model that is only a decoder, or the decoder's beside an encoder.
enum class TokenStream : uint8_t { kInput, kDecoder };
inline constexpr std::array<TokenStream, 2> kTokenStreams = {TokenStream::kInput, TokenStream::kDecoder};

enum class LabelKind : uint8_t {
  kNone,
  kClass,         // one int32 a sample
  kValue,         // one float a sample or several: what a regression predicts, or 1 for each class of several
  kToken,         // one int32 a token of the input, at the token whose output is to predict it
  kDecoderToken,  // the same of the decoder's tokens
  kNextToken,     // one int32 a token of the input, which the token before it in its document is to predict
};

// What a data set has as labels. Two that are equal go through the same programs.
struct LabelShape {
  LabelKind kind = LabelKind::kNone;
  int64_t width = 1;  // of kValue: values a sample

  bool operator==(const LabelShape&) const = default;
};

// The stream whose tokens have labels; CHECKs that it is one of those kinds.
TokenStream labelled_stream(LabelKind kind);

// The label that no loss counts, as in PyTorch.
inline constexpr int32_t kIgnoredLabel = -100;

struct StreamFacts {
  int64_t tokens = 0;    // of all samples
  int64_t longest = 0;   // tokens of a sample
  int64_t shortest = 0;  // the same; only texts that blocks are cut from may have none (data/block_source.h)
  int32_t largest_id = -1;  // no id is larger; -1: there are no tokens
};

// What holds for all samples of a source.
struct SourceFacts {
  int64_t size = 0;  // samples
  LabelShape labels = {};
  bool has_token_types = false;  // false: all are 0
  std::array<StreamFacts, kTokenStreams.size()> streams = {};
  int64_t most_documents = 1;  // of a sample
  int64_t longest_document = 0;

  const StreamFacts& of(TokenStream stream) const { return streams[static_cast<size_t>(stream)]; }
  StreamFacts& of(TokenStream stream) { return streams[static_cast<size_t>(stream)]; }

  // Makes these the facts of their samples and of those of another source, whose labels are of the same shape.
  void append(const SourceFacts& other);
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  const SourceFacts& facts() const { return facts_; }
  // The first so many samples are kept; the others are these again.
  virtual int64_t distinct_size() const { return facts_.size; }
  // How samples are drawn by weight (data/mixture.h), which lives as long as the source; null: each once an epoch.
  virtual const Mixture* mixture() const { return nullptr; }

  // Tokens of the sample.
  virtual int64_t length(int64_t sample, TokenStream stream) const = 0;
  // Those of sample `first` and of the ones behind it.
  virtual void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const = 0;
  virtual void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const = 0;
  // Of the input.
  virtual void copy_token_types(int64_t sample, std::span<int32_t> to) const = 0;

  // Documents of the sample, and tokens of each.
  virtual int64_t document_count(int64_t /*sample*/) const { return 1; }
  virtual int64_t document_length(int64_t sample, int64_t /*document*/) const {
    return length(sample, TokenStream::kInput);
  }

  // Of the kind that the source has. Labels of kNextToken stand at their own tokens, as in Hugging Face's rows; the
  // packer moves each to the token before.
  virtual int32_t class_label(int64_t sample) const = 0;
  virtual void copy_value_labels(int64_t sample, std::span<float> to) const = 0;
  virtual void copy_token_labels(int64_t sample, std::span<int32_t> to) const = 0;
  virtual int32_t token_label(int64_t sample, int64_t token) const = 0;
  // Labels of the sample's tokens that a loss counts: those that are not kIgnoredLabel. Of kNextToken the first of a
  // document is none of them, since no token stands before it.
  virtual int64_t labelled_tokens(int64_t sample) const = 0;

  // ContentHash (base/content_hash.h) of all distinct samples in their order, however they are kept. `on_progress`: as of
  // hash_samples, for each source that has to be read.
  std::string content_hash(const ByteProgress& on_progress = {}) const { return hash_content(on_progress); }

  // Bytes that the source holds in memory while it lives.
  virtual int64_t memory_bytes() const = 0;

 protected:
  SampleSource() = default;
  SampleSource(const SampleSource&) = default;
  SampleSource(SampleSource&&) = default;
  SampleSource& operator=(const SampleSource&) = default;
  SampleSource& operator=(SampleSource&&) = default;

  virtual std::string hash_content(const ByteProgress& on_progress) const;

  // Set while the source is made.
  SourceFacts facts_;
};

// SampleSource::content_hash() as the samples themselves give it. `on_progress` is told of the bytes of ids that were read,
// 4 a token, out of all; it may be unset, and what it throws ends the reading.
std::string hash_samples(const SampleSource& source, const ByteProgress& on_progress = {});

// Samples whose tokens lie end to end, so that any stretch of the input is one read, wherever samples begin.
class ContiguousSource : public SampleSource {
 public:
  // Place of the sample's first token among those of all samples. Of size(): the number of tokens.
  virtual int64_t first_token(int64_t sample) const = 0;
  virtual void copy_ids_from(int64_t first_token, std::span<int32_t> to) const = 0;
  // Of labels of kToken.
  virtual void copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const = 0;
};

}  // namespace shoehorn
