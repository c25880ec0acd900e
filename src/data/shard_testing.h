// What tests and benchmarks of token files share: the samples of a data set in files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/shard_source.h"
#include "data/shard_writer.h"
#include "io/checksummed_files.h"

namespace shoehorn {

// Writes all samples, each of one document, into the directory. `names` gets those of the files.
inline Dataset in_shards(const Dataset& dataset, const std::filesystem::path& directory,
                         std::vector<std::string>& names, int64_t shard_bytes = int64_t{1} << 20) {
  const ChecksummedFiles checksums(directory, FileSync::kTogether);
  ShardWriter writer(directory, dataset.label_shape(), shard_bytes);
  const LabelKind kind = dataset.label_kind();
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::vector<int32_t> ids = dataset.input_ids(i);
    const std::vector<int32_t> types = dataset.token_type_ids(i);
    const std::vector<int32_t> decoder_ids = dataset.decoder_input_ids(i);
    std::vector<float> values;
    std::vector<int32_t> tokens;
    if (kind == LabelKind::kValue) values = dataset.value_labels(i);
    if (kind == LabelKind::kToken || kind == LabelKind::kDecoderToken) tokens = dataset.token_labels(i);
    writer.add({.input_ids = ids,
                .token_type_ids = types,
                .decoder_input_ids = decoder_ids,
                .may_be_empty = ids.empty()},
               {.class_label = kind == LabelKind::kClass ? dataset.class_label(i) : kIgnoredLabel,
                .values = values,
                .tokens = tokens});
  }
  names = writer.finish();
  Manifest manifest;
  for (const auto& [name, written] : checksums.files())
    manifest[name] = {written.bytes, ListedFile::Check::kXxh128, written.xxh128};
  return Dataset(std::make_shared<const ShardSource>(directory, names, manifest));
}

}  // namespace shoehorn
