#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "io/float_convert.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

std::string describe(const TensorEntry& tensor) {
  return fmt::format("{} of shape [{}]", safetensors_dtype(tensor.dtype), fmt::join(tensor.shape, ", "));
}

// The file name each tensor has in model.safetensors.index.json.
std::map<std::string, std::string> read_weight_map(const fs::path& index_path) {
  const nlohmann::json index = read_json(index_path);
  const auto fail = [&](const std::string& expected, const std::string& got) {
    throw user_error("[{}] expected {}, got {}; download the model again", index_path.string(), expected,
                     got);
  };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object() ||
      index["weight_map"].empty()) {
    fail("an object 'weight_map' from tensor names to file names", "none");
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) fail(fmt::format("a file name for tensor '{}'", name), file.type_name());
    const auto& text = file.get_ref<const std::string&>();
    // A shard lies in the directory itself: an index must not reach other files.
    if (text.find('/') != std::string::npos || !text.ends_with(".safetensors")) {
      fail(fmt::format("a .safetensors file of this directory for tensor '{}'", name),
           fmt::format("'{}'", text));
    }
    weight_map[name] = text;
  }
  return weight_map;
}

SafetensorsHeader read_header(const ReadOnlyFile& file) {
  const int64_t file_bytes = file.bytes();
  const std::string what = file.path().string();
  if (file_bytes < kSafetensorsLengthBytes) {
    throw user_error("[{}: header] expected at least {} bytes, got {}; the file is cut short or empty", what,
                     kSafetensorsLengthBytes, file_bytes);
  }
  std::array<std::byte, kSafetensorsLengthBytes> field{};
  file.read_at(0, field);
  if (std::memcmp(field.data(), "version ", field.size()) == 0) {
    throw user_error(
        "[{}] expected a safetensors file, got a Git LFS pointer to one; run 'git lfs pull' where it was "
        "cloned",
        what);
  }
  const auto length = std::bit_cast<uint64_t>(field);
  if (length > static_cast<uint64_t>(kLongestSafetensorsHeader)) {
    throw user_error(
        "[{}: header] expected at most {} bytes, got a length field of {}; is it a safetensors file?", what,
        kLongestSafetensorsHeader, length);
  }
  const auto header_bytes = static_cast<int64_t>(length);
  if (header_bytes > file_bytes - kSafetensorsLengthBytes) {
    throw user_error(
        "[{}: header] expected {} bytes of header, got {} before the file's end; the file is cut short", what,
        header_bytes, file_bytes - kSafetensorsLengthBytes);
  }
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read_at(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(text)));
  return parse_safetensors_header(text, file_bytes - kSafetensorsLengthBytes - header_bytes, what);
}

}  // namespace

void fail_no_tensor(const fs::path& where, std::string_view name, const std::vector<std::string>& known) {
  // Edit distance costs names times their lengths: not worth it for a hostile header of a million.
  const std::string nearest = known.size() > 20000 ? "" : nearest_name(name, known);
  throw user_error("[{}] expected a tensor '{}', got {} tensors of other names; {}", where.string(), name,
                   known.size(),
                   nearest.empty() ? std::string("does config.json belong to these weights?")
                                   : fmt::format("is it '{}'?", nearest));
}

SafetensorsFile SafetensorsFile::open(const fs::path& path) {
  SafetensorsFile result;
  result.file_ = ReadOnlyFile::open(path);
  try {
    result.header_ = read_header(result.file_);
  } catch (const UserError&) {
    verify_listed(path);  // what is wrong with a damaged file is that it is damaged
    throw;
  }
  for (size_t i = 0; i < result.header_.tensors.size(); ++i)
    result.index_.emplace(result.header_.tensors[i].name, i);
  return result;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

const TensorEntry& SafetensorsFile::tensor(std::string_view name) const {
  if (const TensorEntry* entry = find(name)) return *entry;
  std::vector<std::string> known;
  for (const TensorEntry& entry : tensors()) known.push_back(entry.name);
  fail_no_tensor(path(), name, known);
}

void SafetensorsFile::check_bytes(std::string_view name, size_t bytes) const {
  const TensorEntry& entry = tensor(name);
  if (bytes != static_cast<size_t>(entry.bytes)) {
    throw user_error("[{}: tensor '{}'] expected {} bytes, got {} ({})", path().string(), name, bytes,
                     entry.bytes, describe(entry));
  }
}

void SafetensorsFile::read_into(std::string_view name, std::span<std::byte> destination) const {
  check_bytes(name, destination.size());
  file_.read_at(tensor(name).file_offset, destination);
}

void SafetensorsFile::read_range(std::string_view name, int64_t offset,
                                 std::span<std::byte> destination) const {
  const TensorEntry& entry = tensor(name);
  const auto wanted = static_cast<int64_t>(destination.size());
  if (offset < 0 || offset > entry.bytes || wanted > entry.bytes - offset) {
    throw user_error("[{}: tensor '{}'] expected {} bytes at offset {}, got {} in all ({})", path().string(),
                     name, wanted, offset, entry.bytes, describe(entry));
  }
  file_.read_at(entry.file_offset + offset, destination);
}

template <typename To>
void SafetensorsFile::read_as(std::string_view name, DType to, std::span<To> destination,
                              std::span<std::byte> staging) const {
  CHECK(staging.size() >= kSmallestStagingBytes, "{} bytes of staging", staging.size());
  const TensorEntry& entry = tensor(name);
  if (!is_float(entry.dtype)) {
    throw user_error("[{}: tensor '{}'] expected F32, F16, BF16 or F64, got {}", path().string(), name,
                     describe(entry));
  }
  const auto element_bytes = static_cast<size_t>(dtype_bytes(entry.dtype));
  if (destination.size() != static_cast<size_t>(entry.bytes) / element_bytes) {
    throw user_error("[{}: tensor '{}'] expected {} elements, got {} ({})", path().string(), name,
                     destination.size(), static_cast<size_t>(entry.bytes) / element_bytes, describe(entry));
  }
  if (entry.dtype == to) return file_.read_at(entry.file_offset, std::as_writable_bytes(destination));
  const size_t elements_a_turn = staging.size() / element_bytes;
  for (size_t done = 0; done < destination.size();) {
    const size_t count = std::min(elements_a_turn, destination.size() - done);
    const auto chunk = staging.first(count * element_bytes);
    file_.read_at(entry.file_offset + static_cast<int64_t>(done * element_bytes), chunk);
    convert_elements(entry.dtype, chunk, destination.subspan(done, count));
    done += count;
  }
}

void SafetensorsFile::read_converted(std::string_view name, std::span<float> destination,
                                     std::span<std::byte> staging) const {
  read_as(name, DType::kF32, destination, staging);
}

void SafetensorsFile::read_converted(std::string_view name, std::span<bfloat16> destination,
                                     std::span<std::byte> staging) const {
  read_as(name, DType::kBF16, destination, staging);
}

SafetensorsModel SafetensorsModel::open(const fs::path& directory) {
  SafetensorsModel model;
  model.directory_ = directory;
  switch (find_weights(directory)) {
    case WeightsFormat::kSingleFile:
      model.files_.push_back(SafetensorsFile::open(directory / kSafetensorsFileName));
      break;
    case WeightsFormat::kSharded:
      model.open_shards();
      break;
    case WeightsFormat::kSliced:
      throw user_error("[{}] expected {} or {}, got slices of the weights that several processes wrote",
                       directory.string(), kSafetensorsFileName, kSafetensorsIndexName);
  }
  for (size_t i = 0; i < model.files_.size(); ++i) {
    for (const TensorEntry& tensor : model.files_[i].tensors()) model.owner_.emplace(tensor.name, i);
  }
  return model;
}

void SafetensorsModel::open_shards() {
  const fs::path index_path = directory_ / kSafetensorsIndexName;
  verify_listed(index_path);
  const std::map<std::string, std::string> weight_map = read_weight_map(index_path);
  std::set<std::string> file_names;
  for (const auto& [name, file] : weight_map) file_names.insert(file);
  std::vector<std::string> missing;
  for (const std::string& file : file_names) {
    std::error_code error;
    if (!fs::is_regular_file(directory_ / file, error)) missing.push_back(file);
  }
  if (!missing.empty()) {
    throw user_error(
        "[{}] expected the {} shards it names, got none of the name {}; download the model again",
        index_path.string(), file_names.size(), fmt::join(missing, ", "));
  }
  for (const std::string& file : file_names) files_.push_back(SafetensorsFile::open(directory_ / file));
  check_weight_map(weight_map);
}

void SafetensorsModel::check_weight_map(const std::map<std::string, std::string>& weight_map) const {
  const std::string what = (directory_ / kSafetensorsIndexName).string();
  size_t found = 0;
  for (const SafetensorsFile& file : files_) {
    const std::string file_name = file.path().filename().string();
    for (const TensorEntry& tensor : file.tensors()) {
      const auto listed = weight_map.find(tensor.name);
      if (listed == weight_map.end() || listed->second != file_name) {
        throw user_error(
            "[{}: tensor '{}'] expected it in {}, got it in {}; the index does not belong to these shards",
            what, tensor.name, listed == weight_map.end() ? "no shard" : listed->second, file_name);
      }
      ++found;
    }
  }
  if (found == weight_map.size()) return;
  for (const auto& entry : weight_map) {
    const auto file = std::find_if(files_.begin(), files_.end(), [&](const SafetensorsFile& one) {
      return one.path().filename() == entry.second;
    });
    CHECK(file != files_.end(), "shard {} was not opened", entry.second);
    if (file->find(entry.first) == nullptr) {
      throw user_error(
          "[{}: tensor '{}'] expected it in {}, got none of that name there; the index does not belong to "
          "these shards",
          what, entry.first, entry.second);
    }
  }
}

std::vector<std::string> SafetensorsModel::names() const {
  std::vector<std::string> result;
  result.reserve(owner_.size());
  for (const auto& [name, file] : owner_) result.push_back(name);
  return result;
}

const TensorEntry* SafetensorsModel::find(std::string_view name) const {
  const auto owner = owner_.find(name);
  return owner == owner_.end() ? nullptr : files_[owner->second].find(name);
}

const SafetensorsFile& SafetensorsModel::file_of(std::string_view name) const {
  const auto owner = owner_.find(name);
  if (owner == owner_.end()) fail_no_tensor(directory_, name, names());
  return files_[owner->second];
}

}  // namespace shoehorn
