// Tokenized samples to files, as they come.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace shoehorn {

// Labels of a sample, of the kind that the data set has.
struct SampleLabels {
  int32_t class_label = kIgnoredLabel;
  std::span<const float> values = {};
  std::span<const int32_t> tokens = {};
};

// Writes the shards of a data set into a directory, one after the other, and never holds more than one.
//
//   ShardWriter writer(directory, {LabelKind::kClass});
//   writer.add({.input_ids = ids}, {.class_label = 1});
//   names = writer.finish();
class ShardWriter {
 public:
  // A file has about `shard_bytes`. Ids take two bytes in files until the first that needs more.
  ShardWriter(std::filesystem::path directory, LabelShape labels, int64_t shard_bytes = int64_t{32} << 20);

  // Copies it. UserError: those of check_sample, and a sample with decoder's tokens among samples without.
  // CHECKs that it is one document, and that the labels are of the writer's kind. SystemError of a file that
  // becomes full.
  void add(const NewSample& sample, const SampleLabels& labels);

  // Writes the last file; the names of all, in order.
  std::vector<std::string> finish();

 private:
  struct TokenRows {
    std::vector<uint64_t> offsets = {0};
    // One of the two has ids: the first while all of the file's are short.
    std::vector<uint16_t> short_ids;
    std::vector<uint32_t> long_ids;

    size_t tokens() const { return short_ids.size() + long_ids.size(); }
  };

  bool has_long_ids() const;
  int64_t held_bytes() const;
  void write();

  std::filesystem::path directory_;
  LabelShape labels_;
  int64_t shard_bytes_;
  std::array<TokenRows, kTokenStreams.size()> rows_;
  std::vector<uint8_t> token_types_;  // empty: all are 0
  std::vector<int32_t> integer_labels_;
  std::vector<float> value_labels_;
  uint32_t largest_id_ = 0;
  int64_t samples_ = 0;  // of all files
  bool decodes_ = false;
  std::vector<std::string> names_;
};

}  // namespace shoehorn
