// Reads weights: one safetensors file, or a model directory with one or several of them.
//
// Opening reads and validates headers only. Data is read with pread directly into the caller's memory. No
// file is mapped (mapped pages would count as resident), and nothing is allocated in proportion to a tensor.
// Const functions are thread-safe.
//
// Errors: UserError naming the file, the tensor, what was expected and what was found, if a file does not
// exist, is malformed or lacks what the caller asks for; SystemError if a read fails.
// caller asks of it; SystemError where a read fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bfloat16.h"
#include "io/file.h"
#include "io/safetensors_header.h"

namespace shoehorn {

// The smallest staging buffer that read_converted takes.
inline constexpr size_t kSmallestStagingBytes = 4096;

// UserError: no tensor of this name, and which of the known ones is nearest to it.
[[noreturn]] void fail_no_tensor(const std::filesystem::path& where, std::string_view name,
                                 const std::vector<std::string>& known);

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const ReadOnlyFile& contents() const { return file_; }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Null if the file has no such tensor. Valid as long as this object.
  const TensorEntry* find(std::string_view name) const;
  // UserError with the nearest name if the file has no such tensor.
  const TensorEntry& tensor(std::string_view name) const;

  // UserError if the tensor has another size.
  void check_bytes(std::string_view name, size_t bytes) const;
  // Reads the whole tensor, unconverted. `destination` has exactly its size.
  void read_into(std::string_view name, std::span<std::byte> destination) const;
  // Reads bytes [offset, offset + destination.size()) of the tensor.
  void read_range(std::string_view name, int64_t offset, std::span<std::byte> destination) const;

  // Reads a whole tensor of a float dtype and converts it (float_convert.h), staging.size() bytes at a time.
  // `destination` has exactly its number of elements. `staging` has at least kSmallestStagingBytes, at any
  // alignment; it is not used if no conversion is needed.
  void read_converted(std::string_view name, std::span<float> destination,
                      std::span<std::byte> staging) const;
  void read_converted(std::string_view name, std::span<bfloat16> destination,
                      std::span<std::byte> staging) const;

 private:
  template <typename To>
  void read_as(std::string_view name, DType to, std::span<To> destination,
               std::span<std::byte> staging) const;

  ReadOnlyFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, size_t> index_;  // keys point into header_.tensors, which a move keeps
};

// The weights of a Hugging Face model directory: model.safetensors, or model.safetensors.index.json and its
// shards. If both exist the single file is used, as in transformers.
class SafetensorsModel {
 public:
  // UserError also if a shard is missing, if the index and the shards disagree about a tensor, or if the only
  // weights are in another format (pytorch_model.bin, …).
  static SafetensorsModel open(const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  std::vector<SafetensorsFile> take_files() && { return std::move(files_); }

  // The names of all tensors, sorted.
  std::vector<std::string> names() const;
  const TensorEntry* find(std::string_view name) const;
  const TensorEntry& tensor(std::string_view name) const { return file_of(name).tensor(name); }
  // The file that contains a tensor; UserError with the nearest name if none does.
  const SafetensorsFile& file_of(std::string_view name) const;

  void read_into(std::string_view name, std::span<std::byte> destination) const {
    file_of(name).read_into(name, destination);
  }
  void read_range(std::string_view name, int64_t offset, std::span<std::byte> destination) const {
    file_of(name).read_range(name, offset, destination);
  }
  template <typename To>
  void read_converted(std::string_view name, std::span<To> destination, std::span<std::byte> staging) const {
    file_of(name).read_converted(name, destination, staging);
  }

 private:
  void open_shards();
  void check_weight_map(const std::map<std::string, std::string>& weight_map) const;

  std::filesystem::path directory_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> owner_;  // tensor name -> index into files_
};

}  // namespace shoehorn
