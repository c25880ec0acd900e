#include "data/shard_source.h"

#include <algorithm>

#include "base/error.h"
#include "base/open_files.h"
#include "io/file_content.h"

namespace shoehorn {

ShardSource::ShardSource(const std::filesystem::path& directory, std::span<const std::string> names,
                         const Manifest& manifest, std::string content_hash,
                         const std::function<void(int64_t done, int64_t bytes)>& on_progress)
    : content_hash_(std::move(content_hash)) {
  if (names.empty()) throw user_error("[{}] expected files of tokens, got none", directory.string());
  allow_open_files(std::ssize(names));
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) paths.push_back(directory / name);
  const int64_t bytes = bytes_of_files(paths);
  int64_t bytes_before = 0;
  for (const std::string& name : names) {
    const auto listed = manifest.find(name);
    if (listed == manifest.end()) {
      throw user_error("[{}] expected a checksum of {} in {}, got none", directory.string(), name,
                       kManifestName);
    }
    ShardFile shard = ShardFile::open(directory / name, listed->second, [&](int64_t bytes_of_shard) {
      if (on_progress) on_progress(bytes_before + bytes_of_shard, bytes);
    });
    bytes_before += listed->second.bytes;
    const SourceFacts& facts = shard.facts();
    const bool decodes = facts.of(TokenStream::kDecoder).tokens > 0;
    if (!shards_.empty() &&
        (facts.labels != facts_.labels || decodes != (facts_.of(TokenStream::kDecoder).tokens > 0))) {
      throw user_error(
          "[{}] expected samples as in {}, got labels of another kind or another number of streams",
          shard.path().string(), shards_.front().path().filename().string());
    }
    first_samples_.push_back(facts_.size);
    first_tokens_.push_back(facts_.of(TokenStream::kInput).tokens);
    if (shards_.empty()) {
      facts_ = facts;
    } else {
      facts_.append(facts);
    }
    shards_.push_back(std::move(shard));
  }
}

ShardSource::Place ShardSource::place(int64_t sample) const {
  const auto behind = std::upper_bound(first_samples_.begin(), first_samples_.end(), sample);
  const auto shard = static_cast<size_t>(behind - first_samples_.begin() - 1);
  return {shards_[shard], sample - first_samples_[shard]};
}

int64_t ShardSource::length(int64_t sample, TokenStream stream) const {
  const auto [shard, at] = place(sample);
  return shard.length(at, stream);
}

void ShardSource::copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const {
  while (!to.empty()) {
    const auto [shard, at] = place(first);
    const size_t count = std::min(to.size(), static_cast<size_t>(shard.facts().size - at));
    shard.copy_lengths(at, stream, to.first(count));
    first += static_cast<int64_t>(count);
    to = to.subspan(count);
  }
}

void ShardSource::copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const {
  const auto [shard, at] = place(sample);
  shard.copy_ids(at, stream, to);
}

void ShardSource::copy_token_types(int64_t sample, std::span<int32_t> to) const {
  const auto [shard, at] = place(sample);
  shard.copy_token_types(at, to);
}

int32_t ShardSource::class_label(int64_t sample) const {
  const auto [shard, at] = place(sample);
  return shard.class_label(at);
}

void ShardSource::copy_value_labels(int64_t sample, std::span<float> to) const {
  const auto [shard, at] = place(sample);
  shard.copy_value_labels(at, to);
}

void ShardSource::copy_token_labels(int64_t sample, std::span<int32_t> to) const {
  const auto [shard, at] = place(sample);
  shard.copy_token_labels(at, to);
}

int32_t ShardSource::token_label(int64_t sample, int64_t token) const {
  const auto [shard, at] = place(sample);
  return shard.token_label(at, token);
}

int64_t ShardSource::labelled_tokens(int64_t sample) const {
  const auto [shard, at] = place(sample);
  return shard.labelled_tokens(at);
}

int64_t ShardSource::first_token(int64_t sample) const {
  if (sample == facts_.size) return facts_.of(TokenStream::kInput).tokens;
  const auto behind = std::upper_bound(first_samples_.begin(), first_samples_.end(), sample);
  const auto shard = static_cast<size_t>(behind - first_samples_.begin() - 1);
  return first_tokens_[shard] + shards_[shard].first_token(sample - first_samples_[shard]);
}

template <typename Copy>
void ShardSource::copy_stretch(int64_t first_token, std::span<int32_t> to, const Copy& copy) const {
  const auto behind = std::upper_bound(first_tokens_.begin(), first_tokens_.end(), first_token);
  for (auto shard = static_cast<size_t>(behind - first_tokens_.begin() - 1); !to.empty(); ++shard) {
    const int64_t at = first_token - first_tokens_[shard];
    const int64_t behind_it = shards_[shard].facts().of(TokenStream::kInput).tokens - at;
    const auto part = to.first(std::min(to.size(), static_cast<size_t>(behind_it)));
    copy(shards_[shard], at, part);
    first_token += std::ssize(part);
    to = to.subspan(part.size());
  }
}

void ShardSource::copy_ids_from(int64_t first_token, std::span<int32_t> to) const {
  copy_stretch(first_token, to, [](const ShardFile& shard, int64_t first, std::span<int32_t> part) {
    shard.copy_ids_from(first, part);
  });
}

void ShardSource::copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const {
  copy_stretch(first_token, to, [](const ShardFile& shard, int64_t first, std::span<int32_t> part) {
    shard.copy_token_labels_from(first, part);
  });
}

std::string ShardSource::hash_content(const ByteProgress& on_progress) const {
  return content_hash_.empty() ? SampleSource::hash_content(on_progress) : content_hash_;
}

int64_t ShardSource::memory_bytes() const {
  return static_cast<int64_t>(shards_.capacity() * sizeof(ShardFile) +
                              (first_samples_.capacity() + first_tokens_.capacity()) * sizeof(int64_t));
}

}  // namespace shoehorn
