// Writing weights as safetensors: one file, or a model directory of as many shards as max_shard_bytes asks
// for.
//
// Names, dtypes and shapes are known first, so the header and the exact size are too; then data is appended
// in order, whole or in pieces, so that a value that lies in another layout or dtype passes through a small
// staging buffer. Files take their names only when complete; a writer destroyed before that leaves nothing.
// For one thread at a time.
//
// Errors: SystemError naming the path on a full disk, an input/output error, a read-only directory;
// InternalError if the data does not follow the list; UserError if a name is not UTF-8 or sizes leave 63
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/safetensors_header.h"

namespace shoehorn {

using SafetensorsMetadata = std::map<std::string, std::string>;

// What transformers writes: it refuses files without it.
inline const SafetensorsMetadata kPyTorchMetadata = {{"format", "pt"}};

// transformers 5's default: 50 GB, decimal.
inline constexpr int64_t kDefaultMaxShardBytes = 50'000'000'000;

// Puts bytes [offset, offset + chunk.size()) of a tensor into `chunk`.
using FillChunk = std::function<void(int64_t offset, std::span<std::byte> chunk)>;

class SafetensorsWriter {
 public:
  // Creates the temporary file, reserves its space and writes the header. `tensors` is the order in the file;
  // see sort_as_hugging_face for the order other writers use.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const SafetensorsMetadata& metadata = kPyTorchMetadata);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  // Size of the finished file.
  int64_t file_bytes() const { return file_bytes_; }

  // The next bytes of the data. Calls for one tensor follow each other and together give exactly its bytes; a
  // tensor of no bytes takes one call with an empty chunk.
  void append(std::string_view name, std::span<const std::byte> chunk);
  // The whole tensor, a `staging` at a time; staging's size is a multiple of 8, so that chunks hold whole
  // elements.
  void append_filled(std::string_view name, std::span<std::byte> staging, const FillChunk& fill);

  // All tensors are there: brings the file to the disk, under its temporary name.
  void seal();
  // seal(), and gives it its name.
  void commit();

 private:
  std::vector<TensorSpec> tensors_;
  int64_t file_bytes_ = 0;
  AtomicFile file_;
  size_t opened_ = 0;      // tensors begun; the last of them is the current one
  int64_t remaining_ = 0;  // bytes the current tensor lacks
};

// Bytes of the file that a SafetensorsWriter would write.
int64_t safetensors_file_bytes(const std::vector<TensorSpec>& tensors,
                               const SafetensorsMetadata& metadata = kPyTorchMetadata);

struct ShardFile {
  std::string file_name;  // model.safetensors, or model-00001-of-00003.safetensors
  std::vector<TensorSpec> tensors;
};

// Cuts a state dict, in its own order, into shards of at most max_shard_bytes of data by the rules of
// huggingface_hub: a tensor larger than that has a shard of its own. Within a shard tensors are sorted as
// Hugging Face's writer does.
std::vector<ShardFile> split_into_shards(const std::vector<TensorSpec>& tensors, int64_t max_shard_bytes);

// Replaces the weights of a model directory by new ones. A kill at any instant leaves the old model, the new
// one, or a directory without weights that fails to open: never a mixture.
class SafetensorsModelWriter {
 public:
  // `tensors` in the order of the model's state dict. The directory exists.
  SafetensorsModelWriter(std::filesystem::path directory, const std::vector<TensorSpec>& tensors,
                         int64_t max_shard_bytes = kDefaultMaxShardBytes,
                         SafetensorsMetadata metadata = kPyTorchMetadata);

  // The order in which append takes the data: shard by shard.
  const std::vector<TensorSpec>& order() const { return order_; }
  const std::vector<ShardFile>& shards() const { return shards_; }

  void append(std::string_view name, std::span<const std::byte> chunk);
  void append_filled(std::string_view name, std::span<std::byte> staging, const FillChunk& fill);

  // Gives the shards their names, writes the index if there are several, and removes what earlier weights
  // left: transformers itself would go on reading an old model.safetensors beside new shards.
  void commit();

 private:
  SafetensorsWriter& writer_of(std::string_view name);

  std::filesystem::path directory_;
  SafetensorsMetadata metadata_;
  std::vector<ShardFile> shards_;
  std::vector<TensorSpec> order_;
  std::map<std::string, size_t, std::less<>> shard_of_;
  std::vector<std::unique_ptr<SafetensorsWriter>> writers_;  // shards begun; all but the last are sealed
};

}  // namespace shoehorn
