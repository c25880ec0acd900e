// Tensors by name, each whole in one safetensors file, or in slices in several.
//
// What several processes share is written by all of them at once, each into a file of its own (io/owner.h). A
// tensor of such a file has one dimension: the elements of a slice, in its order (base/slice.h). The metadata
// of the file says under "slices" what they are of:
//
//   {"NAME": {"shape": [24, 8], "offset": 2, "length": 3, "stride": 8, "runs": 24}, …}
//
// with the shape of the whole tensor. Together the slices of a tensor cover it once. A file of whole tensors
// has no such key. Readers ask for elements by the whole tensor or by a slice of their own, however it was
// cut when it was written.
//
// Reading allocates nothing. Const functions may run on any number of threads at once.
//
// Errors: UserError naming file, tensor, expected and found for slices that are malformed; DamagedFile where
// files that are whole do not go together: an owner's file is missing, elements are in no file or in two,
// shapes differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/slice.h"
#include "io/owner.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "io/verified_tensors.h"

namespace shoehorn {

// A slice of a tensor, to be written: `whole` has the shape of the whole tensor.
struct SliceSpec {
  TensorSpec whole;
  Slice slice;
};

// The metadata of a file that has these slices.
SafetensorsMetadata slices_metadata(const std::vector<SliceSpec>& slices);

// Begins a file of slices: each tensor's data is the bytes of its slice. Sorted as Hugging Face's writer does.
SafetensorsWriter slices_writer(const std::filesystem::path& path, const std::vector<SliceSpec>& slices);

// Of a tensor, what one of the files has.
struct TensorPart {
  size_t file = 0;
  Slice slice;
};

class TensorFiles {
 public:
  // A Hugging Face model's files.
  TensorFiles(SafetensorsModel model);  // NOLINT(google-explicit-constructor): such files are tensor files

  // The weights of a model directory or of a checkpoint: as SafetensorsModel finds them, or an owner's each.
  static TensorFiles open_weights(const std::filesystem::path& directory);
  // This file, or where it is missing those that owners wrote in place of it.
  static TensorFiles open(const std::filesystem::path& file);

  // What names them all in messages: their directory, or the file that was to be opened.
  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Whether any tensor is cut.
  bool are_sliced() const { return are_sliced_; }

  // Names of all tensors: sorted; and in an order in which each file is read from its beginning to its end.
  std::vector<std::string> names() const;
  std::vector<std::string> names_in_files() const;
  // The whole tensor: `file_offset` means nothing where it is cut. Null if there is none of that name.
  const TensorEntry* find(std::string_view name) const;
  // UserError with the nearest name if there is none.
  const TensorEntry& tensor(std::string_view name) const;
  const std::vector<TensorPart>& parts(std::string_view name) const;
  // The file that a message names for a tensor: the first that has a part of it.
  const std::filesystem::path& path_of(std::string_view name) const;

  // Elements from the local number `first` of a slice on, as many as `to` has room for.
  void read_slice(std::string_view name, const Slice& slice, int64_t first, std::span<std::byte> to) const;
  // Bytes [offset, offset + to.size()) of the whole tensor; whole elements.
  void read_range(std::string_view name, int64_t offset, std::span<std::byte> to) const;

 private:
  struct Tensor {
    TensorEntry whole;
    std::vector<TensorPart> parts;
  };

  TensorFiles(std::filesystem::path path, std::vector<SafetensorsFile> files);
  void add_file(size_t file);
  void check_cover(const std::string& name, const Tensor& tensor) const;
  const Tensor& entry(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  bool are_sliced_ = false;
};

// Reads tensor files with every byte of a file checksummed on the way (verified_tensors.h). Which tensors are read in
// which order decides whether bytes are read twice: names_in_files() is the order in which none are. For one thread.
class VerifiedTensorFiles {
 public:
  // Which files are read to the end: all, or those of which something was read.
  enum class Verifies { kAll, kWhatIsRead };

  // `files` outlives it.
  explicit VerifiedTensorFiles(const TensorFiles& files, Verifies verifies = Verifies::kAll);

  const TensorFiles& files() const { return files_; }
  const TensorEntry& tensor(std::string_view name) const { return files_.tensor(name); }
  // As of TensorFiles.
  void read_slice(std::string_view name, const Slice& slice, int64_t first, std::span<std::byte> to);
  // DamagedFile if a file is not the one that was written.
  void finish();

 private:
  VerifiedTensors& verified(size_t file);

  const TensorFiles& files_;
  Verifies verifies_;
  std::vector<std::optional<VerifiedTensors>> verified_;  // by file; none: nothing was read
};

}  // namespace shoehorn
