#include "data/shard_writer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "data/shard_file.h"
#include "io/file.h"

namespace shoehorn {
namespace {

constexpr uint32_t kLargestShortId = std::numeric_limits<uint16_t>::max();

template <typename T>
void pad_and_write(AtomicFile& file, int64_t offset, std::span<const T> values) {
  static constexpr std::array<std::byte, 8> kZeros{};
  const int64_t gap = offset - file.bytes_written();
  CHECK(gap >= 0 && gap < std::ssize(kZeros), "a section at {} behind {} bytes", offset,
        file.bytes_written());
  file.write(std::span(kZeros).first(static_cast<size_t>(gap)));
  file.write(std::as_bytes(values));
}

}  // namespace

ShardWriter::ShardWriter(std::filesystem::path directory, LabelShape labels, int64_t shard_bytes)
    : directory_(std::move(directory)), labels_(labels), shard_bytes_(shard_bytes) {}

void ShardWriter::add(const NewSample& sample, const SampleLabels& labels) {
  check_sample(sample, samples_);
  CHECK(sample.document_lengths.size() <= 1, "a sample of {} documents", sample.document_lengths.size());
  const bool decodes = !sample.decoder_input_ids.empty();
  if (samples_ > 0 && decodes != decodes_) {
    throw user_error("[decoder_input_ids] expected tokens in every sample or in none, got {} in sample {}",
                     sample.decoder_input_ids.size(), samples_);
  }
  decodes_ = decodes;
  const std::array all_ids = {sample.input_ids, sample.decoder_input_ids};
  // A file of short ids ends before the first long one.
  const auto largest = [](std::span<const int32_t> ids) {
    return ids.empty() ? 0U : static_cast<uint32_t>(*std::ranges::max_element(ids));
  };
  const uint32_t largest_id = std::max(largest(all_ids[0]), largest(all_ids[1]));
  if (!has_long_ids() && largest_id > kLargestShortId) write();
  largest_id_ = std::max(largest_id_, largest_id);
  const size_t tokens_before = rows_[0].tokens();
  const std::span<const int32_t> types = sample.token_type_ids;
  if (!token_types_.empty() || std::ranges::any_of(types, [](int32_t type) { return type != 0; })) {
    token_types_.resize(tokens_before);
    token_types_.insert(token_types_.end(), types.begin(), types.end());
    token_types_.resize(tokens_before + sample.input_ids.size());
  }
  for (size_t i = 0; i < all_ids.size(); ++i) {
    TokenRows& rows = rows_.at(i);
    const std::span<const int32_t> ids = all_ids.at(i);
    if (has_long_ids()) {
      rows.long_ids.insert(rows.long_ids.end(), ids.begin(), ids.end());
    } else {
      rows.short_ids.insert(rows.short_ids.end(), ids.begin(), ids.end());
    }
    rows.offsets.push_back(rows.tokens());
  }
  switch (labels_.kind) {
    case LabelKind::kNone:
      break;
    case LabelKind::kClass:
      integer_labels_.push_back(labels.class_label);
      break;
    case LabelKind::kValue:
      CHECK(std::ssize(labels.values) == labels_.width, "{} values for {}", labels.values.size(),
            labels_.width);
      value_labels_.insert(value_labels_.end(), labels.values.begin(), labels.values.end());
      break;
    case LabelKind::kNextToken:
      CHECK(false, "labels that are next tokens, which a source gives and no file has");
    case LabelKind::kToken:
    case LabelKind::kDecoderToken: {
      const size_t wanted = all_ids.at(static_cast<size_t>(labelled_stream(labels_.kind))).size();
      CHECK(labels.tokens.size() == wanted, "{} labels for {} tokens", labels.tokens.size(), wanted);
      integer_labels_.insert(integer_labels_.end(), labels.tokens.begin(), labels.tokens.end());
      break;
    }
  }
  ++samples_;
  if (held_bytes() >= shard_bytes_) write();
}

bool ShardWriter::has_long_ids() const {
  return largest_id_ > kLargestShortId;
}

int64_t ShardWriter::held_bytes() const {
  size_t bytes =
      token_types_.size() + integer_labels_.size() * sizeof(int32_t) + value_labels_.size() * sizeof(float);
  for (const TokenRows& rows : rows_) {
    bytes += rows.short_ids.size() * sizeof(uint16_t) + rows.long_ids.size() * sizeof(uint32_t) +
             rows.offsets.size() * sizeof(uint64_t);
  }
  return static_cast<int64_t>(bytes);
}

void ShardWriter::write() {
  const size_t samples = rows_[0].offsets.size() - 1;
  if (samples == 0) return;
  const ShardHeader header{.magic = kShardMagic,
                           .version = kShardVersion,
                           .id_bytes = has_long_ids() ? uint32_t{4} : uint32_t{2},
                           .label_kind = static_cast<uint32_t>(labels_.kind),
                           .label_width = static_cast<uint32_t>(labels_.width),
                           .samples = samples,
                           .tokens = rows_[0].tokens(),
                           .decoder_tokens = rows_[1].tokens(),
                           .has_token_types = token_types_.empty() ? uint64_t{0} : uint64_t{1}};
  const ShardLayout layout(header);
  names_.push_back(fmt::format("shard-{:05}.tokens", names_.size()));
  AtomicFile file(directory_ / names_.back(), layout.bytes);
  file.write(std::as_bytes(std::span(&header, 1)));
  const size_t streams = header.decoder_tokens > 0 ? 2 : 1;
  for (size_t i = 0; i < streams; ++i)
    pad_and_write(file, layout.offsets.at(i), std::span<const uint64_t>(rows_.at(i).offsets));
  for (size_t i = 0; i < streams; ++i) {
    if (has_long_ids()) {
      pad_and_write(file, layout.ids.at(i), std::span<const uint32_t>(rows_.at(i).long_ids));
    } else {
      pad_and_write(file, layout.ids.at(i), std::span<const uint16_t>(rows_.at(i).short_ids));
    }
  }
  if (!token_types_.empty()) pad_and_write(file, layout.token_types, std::span<const uint8_t>(token_types_));
  if (!integer_labels_.empty()) pad_and_write(file, layout.labels, std::span<const int32_t>(integer_labels_));
  if (!value_labels_.empty()) pad_and_write(file, layout.labels, std::span<const float>(value_labels_));
  CHECK(file.bytes_written() == layout.bytes, "{} bytes of {}", file.bytes_written(), layout.bytes);
  file.commit();
  for (TokenRows& rows : rows_) {
    rows.short_ids.clear();
    rows.long_ids.clear();
    rows.offsets.assign(1, 0);
  }
  token_types_.clear();
  integer_labels_.clear();
  value_labels_.clear();
  // A file behind one of long ids has some, too: it would end as soon as it began.
  if (!has_long_ids()) largest_id_ = 0;
}

std::vector<std::string> ShardWriter::finish() {
  write();
  return std::move(names_);
}

}  // namespace shoehorn
