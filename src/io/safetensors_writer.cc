#include "io/safetensors_writer.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "io/json_file.h"
#include "io/model_directory.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

int64_t data_bytes(const std::vector<TensorSpec>& tensors) {
  int64_t total = 0;
  for (const TensorSpec& tensor : tensors) {
    if (__builtin_add_overflow(total, tensor_bytes(tensor), &total)) {
      throw user_error("[safetensors: tensor '{}'] expected a file whose bytes fit in 63 bits, got more",
                       tensor.name);
    }
  }
  return total;
}

// model-00001-of-00003.safetensors
bool is_shard_name(const std::string& name) {
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return name.size() == kPattern.size() &&
         std::equal(name.begin(), name.end(), kPattern.begin(), [](char c, char pattern) {
           return pattern == '#' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : c == pattern;
         });
}

nlohmann::json index_of(const std::vector<ModelShard>& shards) {
  int64_t parameters = 0;
  int64_t bytes = 0;
  nlohmann::json weight_map = nlohmann::json::object();
  for (const ModelShard& shard : shards) {
    for (const TensorSpec& tensor : shard.tensors) {
      weight_map[tensor.name] = shard.file_name;
      bytes += tensor_bytes(tensor);
      parameters += tensor_bytes(tensor) / dtype_bytes(tensor.dtype);
    }
  }
  return {{"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
          {"weight_map", std::move(weight_map)}};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const fs::path& path, std::vector<TensorSpec> tensors,
                                     const SafetensorsMetadata& metadata)
    : tensors_(std::move(tensors)),
      file_bytes_(safetensors_file_bytes(tensors_, metadata)),
      file_(path, file_bytes_) {
  file_.write(format_safetensors_header(tensors_, metadata));
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> chunk) {
  if (remaining_ == 0) {
    CHECK(opened_ < tensors_.size() && tensors_[opened_].name == name, "'{}': tensor '{}' where {} is due",
          file_.path().string(), name, opened_ < tensors_.size() ? tensors_[opened_].name : "none");
    remaining_ = tensor_bytes(tensors_[opened_]);
    ++opened_;
  }
  CHECK(tensors_[opened_ - 1].name == name, "'{}': tensor '{}' while '{}' lacks {} bytes",
        file_.path().string(), name, tensors_[opened_ - 1].name, remaining_);
  CHECK(static_cast<int64_t>(chunk.size()) <= remaining_, "'{}': tensor '{}' has {} bytes too many",
        file_.path().string(), name, static_cast<int64_t>(chunk.size()) - remaining_);
  file_.write(chunk);
  remaining_ -= static_cast<int64_t>(chunk.size());
}

void SafetensorsWriter::append_filled(std::string_view name, std::span<std::byte> staging,
                                      const FillChunk& fill) {
  CHECK(!staging.empty() && staging.size() % 8 == 0, "{} bytes of staging", staging.size());
  CHECK(remaining_ == 0, "tensor '{}' while another lacks {} bytes", name, remaining_);
  append(name, {});
  for (int64_t offset = 0; remaining_ > 0;) {
    const auto chunk = staging.first(std::min(staging.size(), static_cast<size_t>(remaining_)));
    fill(offset, chunk);
    append(name, chunk);
    offset += static_cast<int64_t>(chunk.size());
  }
}

void SafetensorsWriter::seal() {
  CHECK(opened_ == tensors_.size() && remaining_ == 0,
        "'{}': {} of {} tensors begun, the last lacks {} bytes", file_.path().string(), opened_,
        tensors_.size(), remaining_);
  file_.seal();
}

void SafetensorsWriter::commit() {
  seal();
  file_.commit();
}

int64_t safetensors_file_bytes(const std::vector<TensorSpec>& tensors, const SafetensorsMetadata& metadata) {
  return static_cast<int64_t>(format_safetensors_header(tensors, metadata).size()) + data_bytes(tensors);
}

std::vector<ModelShard> split_into_shards(const std::vector<TensorSpec>& tensors, int64_t max_shard_bytes) {
  if (max_shard_bytes <= 0)
    throw user_error("[max_shard_size] expected a positive number of bytes, got {}", max_shard_bytes);
  std::vector<ModelShard> shards;
  ModelShard current;
  int64_t current_bytes = 0;
  for (const TensorSpec& tensor : tensors) {
    const int64_t bytes = tensor_bytes(tensor);
    if (bytes > max_shard_bytes) {
      // The shard under way stays open: what follows still goes there.
      shards.push_back({"", {tensor}});
      continue;
    }
    if (bytes > max_shard_bytes - current_bytes) {
      shards.push_back(std::exchange(current, ModelShard()));
      current_bytes = 0;
    }
    current.tensors.push_back(tensor);
    current_bytes += bytes;
  }
  if (!current.tensors.empty() || shards.empty()) shards.push_back(std::move(current));
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name = shards.size() == 1
                              ? std::string(kSafetensorsFileName)
                              : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    sort_as_hugging_face(shards[i].tensors);
  }
  return shards;
}

SafetensorsModelWriter::SafetensorsModelWriter(fs::path directory, const std::vector<TensorSpec>& tensors,
                                               int64_t max_shard_bytes, SafetensorsMetadata metadata)
    : directory_(std::move(directory)),
      metadata_(std::move(metadata)),
      shards_(split_into_shards(tensors, max_shard_bytes)) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (const TensorSpec& tensor : shards_[i].tensors) {
      CHECK(shard_of_.emplace(tensor.name, i).second, "tensor '{}' given twice", tensor.name);
      order_.push_back(tensor);
    }
  }
  // The first file is made at once, so that a directory that can't be written to is found before the work.
  writers_.push_back(
      std::make_unique<SafetensorsWriter>(directory_ / shards_[0].file_name, shards_[0].tensors, metadata_));
}

SafetensorsWriter& SafetensorsModelWriter::writer_of(std::string_view name) {
  const auto shard = shard_of_.find(name);
  CHECK(shard != shard_of_.end(), "tensor '{}' is not in the list", name);
  if (shard->second == writers_.size()) {
    writers_.back()->seal();
    const ModelShard& next = shards_[shard->second];
    writers_.push_back(
        std::make_unique<SafetensorsWriter>(directory_ / next.file_name, next.tensors, metadata_));
  }
  CHECK(shard->second + 1 == writers_.size(), "tensor '{}' comes out of order", name);
  return *writers_.back();
}

void SafetensorsModelWriter::append(std::string_view name, std::span<const std::byte> chunk) {
  writer_of(name).append(name, chunk);
}

void SafetensorsModelWriter::append_filled(std::string_view name, std::span<std::byte> staging,
                                           const FillChunk& fill) {
  writer_of(name).append_filled(name, staging, fill);
}

void SafetensorsModelWriter::commit() {
  CHECK(writers_.size() == shards_.size(), "{} of {} shards written", writers_.size(), shards_.size());
  writers_.back()->seal();
  const fs::path index_path = directory_ / kSafetensorsIndexName;
  const bool sharded = shards_.size() > 1;
  if (sharded) {
    // Without an index no reader takes old shards together with new ones of the same names.
    remove_path(index_path);
    sync_names_beside(index_path);
  }
  std::set<std::string> written;
  for (size_t i = 0; i < shards_.size(); ++i) {
    writers_[i]->commit();
    written.insert(shards_[i].file_name);
  }
  if (sharded) {
    write_json_atomic(index_path, index_of(shards_));
    remove_path(directory_ / kSafetensorsFileName);
  } else {
    remove_path(index_path);
  }
  for (const std::string& name : list_directory(directory_)) {
    if (is_shard_name(name) && !written.contains(name)) remove_path(directory_ / name);
  }
  sync_names_beside(index_path);
}

}  // namespace shoehorn
