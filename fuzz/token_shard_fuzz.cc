// A file of tokenized samples (data/shard_file.h). What is accepted is written and read again the same.
#include <numeric>
#include <vector>

#include "base/error.h"
#include "data/shard_file.h"
#include "data/shard_writer.h"
#include "fuzz/reader.h"

namespace shoehorn::fuzz {
namespace {

// Reads every sample, each number within what the file's facts say, and gives it to a writer.
void copy_samples(const ShardFile& shard, ShardWriter& writer) {
  const SourceFacts& facts = shard.facts();
  std::array<std::vector<int32_t>, kTokenStreams.size()> ids;
  std::vector<int32_t> types;
  std::vector<int32_t> token_labels;
  std::vector<float> values;
  std::vector<int32_t> lengths(static_cast<size_t>(facts.size));
  shard.copy_lengths(0, TokenStream::kInput, lengths);
  CHECK(std::reduce(lengths.begin(), lengths.end(), int64_t{0}) == facts.of(TokenStream::kInput).tokens,
        "lengths of other tokens");
  for (int64_t i = 0; i < facts.size; ++i) {
    for (const TokenStream stream : kTokenStreams) {
      std::vector<int32_t>& row = ids.at(static_cast<size_t>(stream));
      row.resize(static_cast<size_t>(shard.length(i, stream)));
      if (facts.of(stream).tokens > 0) shard.copy_ids(i, stream, row);
      CHECK(std::ssize(row) >= facts.of(stream).shortest, "a sample of {} tokens", row.size());
      for (const int32_t id : row) CHECK(id >= 0 && id <= facts.of(stream).largest_id, "id {}", id);
    }
    types.resize(ids[0].size());
    shard.copy_token_types(i, types);
    SampleLabels labels;
    switch (facts.labels.kind) {
      case LabelKind::kNone:
        break;
      case LabelKind::kClass:
        labels.class_label = shard.class_label(i);
        break;
      case LabelKind::kValue:
        values.resize(static_cast<size_t>(facts.labels.width));
        shard.copy_value_labels(i, values);
        labels.values = values;
        break;
      case LabelKind::kNextToken:
        CHECK(false, "labels that no file has");
      case LabelKind::kToken:
      case LabelKind::kDecoderToken:
        token_labels.resize(ids.at(static_cast<size_t>(labelled_stream(facts.labels.kind))).size());
        shard.copy_token_labels(i, token_labels);
        CHECK(shard.labelled_tokens(i) <= std::ssize(token_labels), "more labels than tokens");
        labels.tokens = token_labels;
        break;
    }
    writer.add({.input_ids = ids[0],
                .token_type_ids = types,
                .decoder_input_ids = ids[1],
                .may_be_empty = facts.of(TokenStream::kInput).shortest == 0},
               labels);
  }
}

void fuzz_token_shard(std::string_view input) {
  static const InputDirectory directory;
  static const InputDirectory written;
  const ShardFile shard = ShardFile::open(directory.write("shard.tokens", input), {});
  ShardWriter writer(written.path(), shard.facts().labels);
  copy_samples(shard, writer);
  int64_t samples = 0;
  int64_t tokens = 0;
  for (const std::string& name : writer.finish()) {
    const ShardFile again = ShardFile::open(written.path() / name, {});
    samples += again.facts().size;
    tokens += again.facts().of(TokenStream::kInput).tokens;
    std::filesystem::remove(written.path() / name);
  }
  CHECK(samples == shard.facts().size && tokens == shard.facts().of(TokenStream::kInput).tokens,
        "{} samples of {} tokens are written as {} of {}", shard.facts().size,
        shard.facts().of(TokenStream::kInput).tokens, samples, tokens);
}

const Registration kTokenShardReader("token_shard", fuzz_token_shard);

}  // namespace
}  // namespace shoehorn::fuzz
