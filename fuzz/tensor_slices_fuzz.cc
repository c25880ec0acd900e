// The metadata of a file of slices, beside the file of another owner (io/tensor_files.h).
#include <algorithm>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/tensor_files.h"

namespace shoehorn::fuzz {
namespace {

constexpr const char* kName = "t.safetensors";
const TensorSpec kMatrix = {"matrix", DType::kU8, {2, 4}};

// A file of an owner with these tensors and data, which `slices` is said of.
void write(const InputDirectory& directory, int32_t owner, const std::vector<TensorSpec>& tensors,
           const std::string& slices, const std::string& data) {
  SafetensorsMetadata metadata = kPyTorchMetadata;
  metadata["slices"] = slices;
  directory.write(owner_file_name(kName, {owner, 2}), format_safetensors_header(tensors, metadata) + data);
}

std::string bytes_of(const SafetensorsFile& file, const std::string& name) {
  std::string bytes(static_cast<size_t>(file.tensor(name).bytes), '\0');
  file.read_into(name, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Every byte of every part is in the whole tensor once, and the slices that are written read back the same.
void check(const TensorFiles& files) {
  for (const std::string& name : files.names()) {
    std::string whole(static_cast<size_t>(files.tensor(name).bytes), '\0');
    files.read_range(name, 0, std::as_writable_bytes(std::span(whole)));
    std::string parts;
    for (const TensorPart& part : files.parts(name)) {
      const std::string bytes = bytes_of(files.files()[part.file], name);
      std::string read(bytes.size(), '\0');
      files.read_slice(name, part.slice, 0, std::as_writable_bytes(std::span(read)));
      CHECK(read == bytes, "{} of '{}' are '{}', not '{}'", slice_text(part.slice), name, bytes, read);
      parts += bytes;
    }
    std::sort(whole.begin(), whole.end());
    std::sort(parts.begin(), parts.end());
    CHECK(whole == parts, "'{}' of parts of '{}'", whole, parts);
  }
}

void fuzz_tensor_slices(std::string_view input) {
  static const InputDirectory directory;
  static const bool has_other = [] {
    const SliceSpec columns = {kMatrix, Slice::block(kMatrix.shape, 1, 2, 4)};
    write(directory, 1, {{"matrix", DType::kU8, {4}}}, slices_metadata({columns}).at("slices"), "efgh");
    return true;
  }();
  const std::vector<TensorSpec> tensors = {{"matrix", DType::kU8, {4}}, {"row", DType::kU8, {2}}};
  write(directory, 0, tensors, std::string(input), "abcdij");
  const TensorFiles files = TensorFiles::open(directory.path() / kName);
  CHECK(has_other && files.files().size() == 2, "{} files", files.files().size());
  check(files);
  std::vector<SliceSpec> again;
  for (const TensorSpec& tensor : tensors) {
    const TensorEntry& whole = files.tensor(tensor.name);
    again.push_back({{whole.name, whole.dtype, whole.shape}, files.parts(tensor.name)[0].slice});
  }
  write(directory, 0, tensors, slices_metadata(again).at("slices"), "abcdij");
  const TensorFiles reread = TensorFiles::open(directory.path() / kName);
  for (const TensorSpec& tensor : tensors) {
    CHECK(reread.tensor(tensor.name).shape == files.tensor(tensor.name).shape &&
              reread.parts(tensor.name)[0].slice == files.parts(tensor.name)[0].slice,
          "'{}' reads back as {}", tensor.name, slice_text(reread.parts(tensor.name)[0].slice));
  }
}

const Registration kTensorSlicesReader("tensor_slices", fuzz_tensor_slices);

}  // namespace
}  // namespace shoehorn::fuzz
