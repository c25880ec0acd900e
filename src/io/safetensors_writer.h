// Writes weights as safetensors: one file, or a model directory with the number of shards that
// max_shard_bytes implies.
//
// The caller gives names, dtypes and shapes first, so the header and the exact size are known. Then it
// appends the data in that order, whole or in pieces; so values in another layout or dtype can pass through a
// small staging buffer. Files get their final names only when complete; a writer that is destroyed earlier
// leaves nothing. Not thread-safe.
//
// Errors: SystemError naming the path for a full disk, an input/output error, a read-only directory;
// InternalError if the data does not follow the list; UserError if a name is not UTF-8 or a size does not fit
// in 63 bits.
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

// The metadata that transformers writes. It refuses files without it.
inline const SafetensorsMetadata kPyTorchMetadata = {{"format", "pt"}};

// The default of transformers 5: 50 GB, decimal.
inline constexpr int64_t kDefaultMaxShardBytes = 50'000'000'000;

// Copies bytes [offset, offset + chunk.size()) of a tensor into `chunk`.
using FillChunk = std::function<void(int64_t offset, std::span<std::byte> chunk)>;

class SafetensorsWriter {
 public:
  // Creates the temporary file, reserves its space and writes the header. `tensors` is in file order;
  // sort_as_hugging_face gives the order of other writers.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const SafetensorsMetadata& metadata = kPyTorchMetadata);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  // Size of the finished file.
  int64_t file_bytes() const { return file_bytes_; }

  // Appends the next bytes of the data. The calls for one tensor come one after another and add up to its
  // size; an empty tensor takes one call with an empty chunk.
  void append(std::string_view name, std::span<const std::byte> chunk);
  // Appends a whole tensor, staging.size() bytes at a time. That size is a multiple of 8, so that chunks hold
  // whole elements.
  void append_filled(std::string_view name, std::span<std::byte> staging, const FillChunk& fill);

  // Syncs the file to the disk, still under its temporary name. Call it after all tensors.
  void seal();
  // seal(), then rename to the final name.
  void commit();

 private:
  std::vector<TensorSpec> tensors_;
  int64_t file_bytes_ = 0;
  AtomicFile file_;
  size_t opened_ = 0;      // tensors begun; the last one is the current one
  int64_t remaining_ = 0;  // bytes still missing of the current tensor
};

// Size of the file that a SafetensorsWriter would write.
int64_t safetensors_file_bytes(const std::vector<TensorSpec>& tensors,
                               const SafetensorsMetadata& metadata = kPyTorchMetadata);

struct ModelShard {
  std::string file_name;  // model.safetensors, or model-00001-of-00003.safetensors
  std::vector<TensorSpec> tensors;
};

// Cuts a state dict, in its own order, into shards of at most max_shard_bytes of data by the rules of
// huggingface_hub: a tensor larger than that has a shard of its own. Within a shard tensors are sorted as
// Hugging Face's writer does.
std::vector<ModelShard> split_into_shards(const std::vector<TensorSpec>& tensors, int64_t max_shard_bytes);

// Replaces the weights of a model directory. A kill at any instant leaves the old model, the new model, or a
// directory without weights that fails to open: never a mixture.
class SafetensorsModelWriter {
 public:
  // `tensors` is in the order of the model's state dict. The directory exists.
  SafetensorsModelWriter(std::filesystem::path directory, const std::vector<TensorSpec>& tensors,
                         int64_t max_shard_bytes = kDefaultMaxShardBytes,
                         SafetensorsMetadata metadata = kPyTorchMetadata);

  // The order in which append expects the data: shard by shard.
  const std::vector<TensorSpec>& order() const { return order_; }
  const std::vector<ModelShard>& shards() const { return shards_; }

  void append(std::string_view name, std::span<const std::byte> chunk);
  void append_filled(std::string_view name, std::span<std::byte> staging, const FillChunk& fill);

  // Renames the shards to their final names, writes the index if there are several, and removes files of
  // earlier weights: transformers would go on reading an old model.safetensors beside new shards.
  void commit();

 private:
  SafetensorsWriter& writer_of(std::string_view name);

  std::filesystem::path directory_;
  SafetensorsMetadata metadata_;
  std::vector<ModelShard> shards_;
  std::vector<TensorSpec> order_;
  std::map<std::string, size_t, std::less<>> shard_of_;
  std::vector<std::unique_ptr<SafetensorsWriter>> writers_;  // shards begun; all but the last are sealed
};

}  // namespace shoehorn
