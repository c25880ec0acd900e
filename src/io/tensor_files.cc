#include "io/tensor_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"

namespace shoehorn {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kSlices = "slices";
constexpr const char* kShape = "shape";
// The numbers of a slice, by their keys.
constexpr std::array<std::pair<const char*, int64_t Slice::*>, 4> kNumbers = {{{"offset", &Slice::offset},
                                                                               {"length", &Slice::length},
                                                                               {"stride", &Slice::stride},
                                                                               {"runs", &Slice::runs}}};

constexpr const char* kOtherCheckpoint = "the files were written by different runs: take another checkpoint";

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// What a file says of one of its tensors: the whole tensor's shape, and the slice that is in the file.
struct SliceInFile {
  std::vector<int64_t> shape;
  Slice slice;
};

class SlicesReader {
 public:
  explicit SlicesReader(const SafetensorsFile& file) : file_(file) {}

  std::map<std::string, SliceInFile> read(const std::string& text) const {
    const json object = parse_json(text, file_.path().string() + ": slices");
    if (!object.is_object()) fail("", "an object 'slices' in the metadata", object.type_name());
    std::map<std::string, SliceInFile> slices;
    for (const auto& [name, facts] : object.items()) {
      const TensorEntry* entry = file_.find(name);
      if (entry == nullptr) fail(name, "slices of tensors of this file", "one of another tensor");
      slices[name] = slice_of(*entry, facts);
    }
    for (const TensorEntry& entry : file_.tensors()) {
      if (!slices.contains(entry.name)) fail(entry.name, "a slice in the metadata", "none");
    }
    return slices;
  }

 private:
  SliceInFile slice_of(const TensorEntry& entry, const json& facts) const {
    const auto number = [&](const json& value, const char* key) {
      const std::optional<int64_t> found = whole_number(value);
      if (!found || *found < 0)
        fail(entry.name, fmt::format("a whole number, 0 or more, as '{}'", key), value.dump());
      return *found;
    };
    if (!facts.is_object() || facts.size() != kNumbers.size() + 1 || !facts.contains(kShape) ||
        !facts[kShape].is_array())
      fail(entry.name, "a slice of shape, offset, length, stride and runs", facts.dump());
    SliceInFile found;
    for (const json& dim : facts[kShape]) found.shape.push_back(number(dim, kShape));
    Slice numbers;
    for (const auto& [key, member] : kNumbers) {
      if (!facts.contains(key)) fail(entry.name, fmt::format("'{}' of its slice", key), facts.dump());
      numbers.*member = number(facts[key], key);
    }
    const int64_t elements = tensor_bytes({entry.name, entry.dtype, found.shape}) / dtype_bytes(entry.dtype);
    const std::optional<Slice> slice = Slice::make(numbers, elements);
    if (!slice) fail(entry.name, fmt::format("a slice of shape {}", shape_text(found.shape)), facts.dump());
    if (entry.shape != std::vector{slice->elements()}) {
      fail(entry.name, fmt::format("shape [{}], the elements of its slice", slice->elements()),
           shape_text(entry.shape));
    }
    found.slice = *slice;
    return found;
  }

  [[noreturn]] void fail(const std::string& tensor, const std::string& expected,
                         const std::string& got) const {
    throw user_error("[{}: tensor '{}'] expected {}, got {}; the file is damaged or not shoehorn's",
                     file_.path().string(), tensor, expected, got);
  }

  const SafetensorsFile& file_;
};

// What each tensor of the file is a slice of; none: its tensors are whole.
std::optional<std::map<std::string, SliceInFile>> slices_of(const SafetensorsFile& file) {
  const auto text = file.metadata().find(kSlices);
  if (text == file.metadata().end()) return std::nullopt;
  try {
    return SlicesReader(file).read(text->second);
  } catch (const UserError&) {
    verify_listed(file.path());  // what is wrong with a damaged file is that it is damaged
    throw;
  }
}

// Copies what `part` has of the elements [first, …) of a slice to their places in `to`. read(first, bytes)
// reads elements of the part from its local number `first` on.
template <typename Read>
void copy_part(const Slice& part, const Slice& slice, int64_t first, int64_t width, std::span<std::byte> to,
               const Read& read) {
  const int64_t behind = first + static_cast<int64_t>(to.size()) / width;
  // Short runs are read together, with what lies between them in the part.
  std::array<std::byte, 32768> buffer;
  const int64_t most = std::ssize(buffer) / width;
  const int64_t last = behind == first ? 0 : part.elements_before(slice.global_of(behind - 1) + 1);
  int64_t begin = 0;  // local numbers of the part that are in the buffer
  int64_t end = 0;
  for_each_common_run(part, slice, first, behind, [&](CommonRun run) {
    while (run.length > 0) {
      const auto place = to.subspan(static_cast<size_t>((run.to - first) * width));
      int64_t count = run.length;
      if (run.from >= end && run.length >= most) {
        read(run.from, place.first(static_cast<size_t>(count * width)));
      } else {
        if (run.from >= end) {
          begin = run.from;
          end = std::min(begin + most, last);
          read(begin, std::span(buffer).first(static_cast<size_t>((end - begin) * width)));
        }
        count = std::min(count, end - run.from);
        std::memcpy(place.data(), buffer.data() + (run.from - begin) * width,
                    static_cast<size_t>(count * width));
      }
      run.from += count;
      run.to += count;
      run.length -= count;
    }
  });
}

// Calls copy(part) for the parts that may have some of the elements [first, behind) of a slice.
template <typename Copy>
void for_each_part(const std::vector<TensorPart>& parts, const Slice& slice, int64_t first, int64_t behind,
                   const Copy& copy) {
  if (first == behind) return;
  const int64_t begin = slice.global_of(first);
  const int64_t end = slice.global_of(behind - 1) + 1;
  for (const TensorPart& part : parts) {
    if (part.slice.offset < end && begin < part.slice.end()) copy(part);
  }
}

}  // namespace

SafetensorsMetadata slices_metadata(const std::vector<SliceSpec>& slices) {
  json object = json::object();
  for (const SliceSpec& spec : slices) {
    json& facts = object[spec.whole.name];
    facts[kShape] = spec.whole.shape;
    for (const auto& [key, member] : kNumbers) facts[key] = spec.slice.*member;
  }
  SafetensorsMetadata metadata = kPyTorchMetadata;
  metadata[kSlices] = format_json(object, {.indent = -1, .final_newline = false});
  return metadata;
}

SafetensorsWriter slices_writer(const fs::path& path, const std::vector<SliceSpec>& slices) {
  std::vector<TensorSpec> tensors;
  for (const SliceSpec& spec : slices)
    tensors.push_back({spec.whole.name, spec.whole.dtype, {spec.slice.elements()}});
  sort_as_hugging_face(tensors);
  return {path, std::move(tensors), slices_metadata(slices)};
}

TensorFiles::TensorFiles(SafetensorsModel model)
    : TensorFiles(model.directory(), std::move(model).take_files()) {}

TensorFiles::TensorFiles(fs::path path, std::vector<SafetensorsFile> files)
    : path_(std::move(path)), files_(std::move(files)) {
  for (size_t i = 0; i < files_.size(); ++i) add_file(i);
  for (const auto& [name, tensor] : tensors_) {
    check_cover(name, tensor);
    are_sliced_ = are_sliced_ || tensor.parts.size() > 1 ||
                  tensor.parts[0].slice.elements() * dtype_bytes(tensor.whole.dtype) != tensor.whole.bytes;
  }
}

void TensorFiles::add_file(size_t file) {
  const auto slices = slices_of(files_[file]);
  for (const TensorEntry& entry : files_[file].tensors()) {
    TensorEntry whole = entry;
    Slice slice = Slice::whole(entry.bytes / dtype_bytes(entry.dtype));
    if (slices) {
      slice = slices->at(entry.name).slice;
      whole.shape = slices->at(entry.name).shape;
      whole.bytes = tensor_bytes({whole.name, whole.dtype, whole.shape});
    }
    const auto [at, is_new] = tensors_.try_emplace(entry.name, Tensor{whole, {}});
    const TensorEntry& known = at->second.whole;
    if (known.dtype != whole.dtype || known.shape != whole.shape) {
      throw DamagedFile(files_[file].path(),
                        fmt::format("expected tensor '{}' as {} of shape {}, as in {}, got {} of shape {}",
                                    entry.name, dtype_name(known.dtype), shape_text(known.shape),
                                    path_of(entry.name).filename().string(), dtype_name(whole.dtype),
                                    shape_text(whole.shape)),
                        kOtherCheckpoint);
    }
    at->second.parts.push_back({file, slice});
  }
}

void TensorFiles::check_cover(const std::string& name, const Tensor& tensor) const {
  std::vector<Slice> slices;
  for (const TensorPart& part : tensor.parts) slices.push_back(part.slice);
  const auto defect = find_cover_defect(slices, tensor.whole.bytes / dtype_bytes(tensor.whole.dtype));
  if (!defect) return;
  const std::string elements = slice_text(Slice::range(defect->begin, defect->end));
  if (!defect->twice) {
    throw DamagedFile(path_of(name),
                      fmt::format("expected {} of tensor '{}' in one of {} files, got them in none", elements,
                                  name, files_.size()),
                      kOtherCheckpoint);
  }
  const auto file_of = [&](size_t part) { return files_[tensor.parts[part].file].path(); };
  throw DamagedFile(file_of(defect->twice->second),
                    fmt::format("expected {} of tensor '{}' in one file, got them in {} too", elements, name,
                                file_of(defect->twice->first).filename().string()),
                    kOtherCheckpoint);
}

TensorFiles TensorFiles::open_weights(const fs::path& directory) {
  if (find_weights(directory) != WeightsFormat::kSliced) return SafetensorsModel::open(directory);
  TensorFiles files = open(directory / kSafetensorsFileName);
  files.path_ = directory;
  return files;
}

TensorFiles TensorFiles::open(const fs::path& file) {
  std::vector<SafetensorsFile> files;
  if (!path_exists(file)) {
    for (const fs::path& path : list_owner_files(file)) files.push_back(SafetensorsFile::open(path));
  }
  if (files.empty()) files.push_back(SafetensorsFile::open(file));
  return {file, std::move(files)};
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors_) result.push_back(name);
  return result;
}

std::vector<std::string> TensorFiles::names_in_files() const {
  std::vector<std::string> result;
  if (!are_sliced_) {
    for (const SafetensorsFile& file : files_) {
      for (const TensorEntry& entry : file.tensors()) result.push_back(entry.name);
    }
    return result;
  }
  // The order that slices_writer() gives the tensors of every file.
  std::vector<TensorSpec> tensors;
  for (const auto& [name, tensor] : tensors_) tensors.push_back({name, tensor.whole.dtype, {}});
  sort_as_hugging_face(tensors);
  for (const TensorSpec& tensor : tensors) result.push_back(tensor.name);
  return result;
}

const TensorEntry* TensorFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.whole;
}

const TensorFiles::Tensor& TensorFiles::entry(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail_no_tensor(path_, name, names());
  return found->second;
}

const TensorEntry& TensorFiles::tensor(std::string_view name) const {
  return entry(name).whole;
}

const std::vector<TensorPart>& TensorFiles::parts(std::string_view name) const {
  return entry(name).parts;
}

const fs::path& TensorFiles::path_of(std::string_view name) const {
  return files_[entry(name).parts.at(0).file].path();
}

void TensorFiles::read_slice(std::string_view name, const Slice& slice, int64_t first,
                             std::span<std::byte> to) const {
  const int64_t width = dtype_bytes(tensor(name).dtype);
  const int64_t behind = first + static_cast<int64_t>(to.size()) / width;
  for_each_part(parts(name), slice, first, behind, [&](const TensorPart& part) {
    copy_part(part.slice, slice, first, width, to, [&](int64_t at, std::span<std::byte> bytes) {
      files_[part.file].read_range(name, at * width, bytes);
    });
  });
}

void TensorFiles::read_range(std::string_view name, int64_t offset, std::span<std::byte> to) const {
  const TensorEntry& whole = tensor(name);
  const int64_t width = dtype_bytes(whole.dtype);
  const auto bytes = static_cast<int64_t>(to.size());
  CHECK(offset % width == 0 && bytes % width == 0 && 0 <= offset && bytes <= whole.bytes - offset,
        "bytes {} to {} of '{}', which has {}", offset, offset + bytes, name, whole.bytes);
  read_slice(name, Slice::whole(whole.bytes / width), offset / width, to);
}

VerifiedTensorFiles::VerifiedTensorFiles(const TensorFiles& files, Verifies verifies)
    : files_(files), verifies_(verifies), verified_(files.files().size()) {}

VerifiedTensors& VerifiedTensorFiles::verified(size_t file) {
  if (!verified_[file]) verified_[file].emplace(files_.files()[file]);
  return *verified_[file];
}

void VerifiedTensorFiles::read_slice(std::string_view name, const Slice& slice, int64_t first,
                                     std::span<std::byte> to) {
  const int64_t width = dtype_bytes(tensor(name).dtype);
  const int64_t behind = first + static_cast<int64_t>(to.size()) / width;
  for_each_part(files_.parts(name), slice, first, behind, [&](const TensorPart& part) {
    copy_part(part.slice, slice, first, width, to, [&](int64_t at, std::span<std::byte> bytes) {
      verified(part.file).read_range(name, at * width, bytes);
    });
  });
}

void VerifiedTensorFiles::finish() {
  for (size_t i = 0; i < verified_.size(); ++i) {
    if (verifies_ == Verifies::kAll) verified(i);
    if (verified_[i]) verified_[i]->finish();
  }
}

}  // namespace shoehorn
