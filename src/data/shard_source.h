// A data set in shards on a disk: what does not fit in memory is read sample by sample as it is packed.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/sample_source.h"
#include "data/shard_file.h"
#include "io/manifest.h"

namespace shoehorn {

class ShardSource final : public ContiguousSource {
 public:
  // Opens the files of `names` below the directory, in this order, which stay open, and reads each once
  // (ShardFile::open). `manifest` lists them. `content_hash`: what content_hash() gives, empty where it is not known.
  // `on_progress` is told of the bytes that were read, out of all files', and may be unset; what it throws ends the
  // reading. UserError: no files, files that are not of one data set, those of ShardFile::open. SystemError of
  // allow_open_files.
  ShardSource(const std::filesystem::path& directory, std::span<const std::string> names,
              const Manifest& manifest, std::string content_hash = {},
              const std::function<void(int64_t done, int64_t bytes)>& on_progress = {});

  int64_t length(int64_t sample, TokenStream stream) const override;
  void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const override;
  void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const override;
  void copy_token_types(int64_t sample, std::span<int32_t> to) const override;
  int32_t class_label(int64_t sample) const override;
  void copy_value_labels(int64_t sample, std::span<float> to) const override;
  void copy_token_labels(int64_t sample, std::span<int32_t> to) const override;
  int32_t token_label(int64_t sample, int64_t token) const override;
  int64_t labelled_tokens(int64_t sample) const override;
  int64_t first_token(int64_t sample) const override;
  void copy_ids_from(int64_t first_token, std::span<int32_t> to) const override;
  void copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const override;
  // Of what it knows of its files; their content is the page cache's.
  int64_t memory_bytes() const override;

 private:
  std::string hash_content(const ByteProgress& on_progress) const override;

  struct Place {
    const ShardFile& shard;
    int64_t sample;  // within it
  };

  Place place(int64_t sample) const;
  // Calls copy(shard, first token within it, part of `to`) for each shard that the stretch lies in.
  template <typename Copy>
  void copy_stretch(int64_t first_token, std::span<int32_t> to, const Copy& copy) const;

  std::vector<ShardFile> shards_;
  std::vector<int64_t> first_samples_;  // of each shard
  std::vector<int64_t> first_tokens_;   // the same, of the input
  std::string content_hash_;
};

}  // namespace shoehorn
