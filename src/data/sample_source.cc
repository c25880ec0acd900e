#include "data/sample_source.h"

#include <algorithm>
#include <vector>

#include "base/content_hash.h"
#include "base/error.h"

namespace shoehorn {
namespace {

constexpr int64_t kLengthsAtOnce = 4096;
constexpr int64_t kIdBytes = sizeof(int32_t);
constexpr int64_t kBytesBetweenProgress = int64_t{1} << 20;

// Adds values to a hash, many at a time; they count as if they were one array.
template <typename T>
class HashedArray {
 public:
  explicit HashedArray(ContentHash& hash) : hash_(hash) { values_.reserve(kMaxValues); }
  HashedArray(const HashedArray&) = delete;
  HashedArray& operator=(const HashedArray&) = delete;
  ~HashedArray() { add_to_hash(); }

  void add(T value) {
    if (values_.size() == kMaxValues) add_to_hash();
    values_.push_back(value);
  }

 private:
  static constexpr size_t kMaxValues = 16384;

  void add_to_hash() {
    hash_.add(std::as_bytes(std::span(values_)));
    values_.clear();
  }

  ContentHash& hash_;
  std::vector<T> values_;
};

template <typename Visit>
void for_each_length(const SampleSource& source, TokenStream stream, const Visit& visit) {
  std::vector<int32_t> lengths;
  const int64_t count = source.distinct_size();
  for (int64_t first = 0; first < count; first += kLengthsAtOnce) {
    lengths.resize(static_cast<size_t>(std::min(kLengthsAtOnce, count - first)));
    source.copy_lengths(first, stream, lengths);
    for (size_t i = 0; i < lengths.size(); ++i) visit(first + static_cast<int64_t>(i), lengths[i]);
  }
}

void add_offsets(const SampleSource& source, TokenStream stream, ContentHash& hash) {
  HashedArray<int64_t> offsets(hash);
  int64_t end = 0;
  offsets.add(0);
  for_each_length(source, stream, [&](int64_t, int32_t length) { offsets.add(end += length); });
}

// The int32 that `copy(sample, to)` gives for each token of a stream, as elements of type T.
template <typename T, typename Copy>
void add_tokens(const SampleSource& source, TokenStream stream, ContentHash& hash, const Copy& copy) {
  HashedArray<T> all(hash);
  std::vector<int32_t> row;
  for_each_length(source, stream, [&](int64_t sample, int32_t length) {
    row.resize(static_cast<size_t>(length));
    copy(sample, std::span(row));
    for (const int32_t value : row) all.add(static_cast<T>(value));
  });
}

// `on_ids` is told of those of each sample.
template <typename OnIds>
void add_ids(const SampleSource& source, TokenStream stream, ContentHash& hash, const OnIds& on_ids) {
  add_tokens<int32_t>(source, stream, hash, [&](int64_t sample, std::span<int32_t> row) {
    source.copy_ids(sample, stream, row);
    on_ids(row);
  });
}

void add_labels(const SampleSource& source, ContentHash& hash) {
  const LabelShape labels = source.facts().labels;
  switch (labels.kind) {
    case LabelKind::kNone:
      return;
    case LabelKind::kClass: {
      HashedArray<int32_t> classes(hash);
      for (int64_t i = 0; i < source.distinct_size(); ++i) classes.add(source.class_label(i));
      return;
    }
    case LabelKind::kValue: {
      HashedArray<float> values(hash);
      std::vector<float> row(static_cast<size_t>(labels.width));
      for (int64_t i = 0; i < source.distinct_size(); ++i) {
        source.copy_value_labels(i, row);
        for (const float value : row) values.add(value);
      }
      return;
    }
    case LabelKind::kToken:
    case LabelKind::kDecoderToken:
    case LabelKind::kNextToken:
      add_tokens<int32_t>(
          source, labelled_stream(labels.kind), hash,
          [&](int64_t sample, std::span<int32_t> row) { source.copy_token_labels(sample, row); });
      return;
  }
}

void add_documents(const SampleSource& source, ContentHash& hash) {
  HashedArray<int64_t> lengths(hash);
  for (int64_t i = 0; i < source.distinct_size(); ++i) {
    lengths.add(source.document_count(i));
    for (int64_t d = 0; d < source.document_count(i); ++d) lengths.add(source.document_length(i, d));
  }
}

}  // namespace

TokenStream labelled_stream(LabelKind kind) {
  const bool is_of_input = kind == LabelKind::kToken || kind == LabelKind::kNextToken;
  CHECK(is_of_input || kind == LabelKind::kDecoderToken, "tokens without labels");
  return is_of_input ? TokenStream::kInput : TokenStream::kDecoder;
}

void SourceFacts::append(const SourceFacts& other) {
  size += other.size;
  has_token_types = has_token_types || other.has_token_types;
  most_documents = std::max(most_documents, other.most_documents);
  longest_document = std::max(longest_document, other.longest_document);
  for (const TokenStream stream : kTokenStreams) {
    StreamFacts& all = of(stream);
    const StreamFacts& added = other.of(stream);
    all.tokens += added.tokens;
    all.longest = std::max(all.longest, added.longest);
    all.shortest = std::min(all.shortest, added.shortest);
    all.largest_id = std::max(all.largest_id, added.largest_id);
  }
}

std::string SampleSource::hash_content(const ByteProgress& on_progress) const {
  return hash_samples(*this, on_progress);
}

// Offsets say where each of the arrays ends but the labels, which end it. Checkpoints keep the hash: what a data set of
// one stream without documents gives stays as it is.
std::string hash_samples(const SampleSource& source, const ByteProgress& on_progress) {
  const SourceFacts& facts = source.facts();
  int64_t bytes = 0;
  for (const StreamFacts& stream : facts.streams) bytes += stream.tokens * kIdBytes;
  int64_t done_bytes = 0;
  int64_t told_bytes = 0;
  const auto on_ids = [&](std::span<const int32_t> ids) {
    done_bytes += std::ssize(ids) * kIdBytes;
    if (!on_progress || (done_bytes - told_bytes < kBytesBetweenProgress && done_bytes < bytes)) return;
    told_bytes = done_bytes;
    on_progress(done_bytes, bytes);
  };
  ContentHash hash;
  add_offsets(source, TokenStream::kInput, hash);
  add_ids(source, TokenStream::kInput, hash, on_ids);
  const std::array kinds = {static_cast<uint8_t>(facts.labels.kind),
                            static_cast<uint8_t>(facts.has_token_types)};
  hash.add(std::as_bytes(std::span(kinds)));
  if (facts.has_token_types) {
    add_tokens<uint8_t>(source, TokenStream::kInput, hash, [&](int64_t sample, std::span<int32_t> row) {
      source.copy_token_types(sample, row);
    });
  }
  if (facts.of(TokenStream::kDecoder).tokens > 0) {
    add_offsets(source, TokenStream::kDecoder, hash);
    add_ids(source, TokenStream::kDecoder, hash, on_ids);
  }
  if (facts.most_documents > 1) add_documents(source, hash);
  add_labels(source, hash);
  return hash.hex();
}

}  // namespace shoehorn
