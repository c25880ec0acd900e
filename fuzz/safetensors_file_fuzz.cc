// A safetensors file, its length field and data included (io/safetensors.h).
#include <vector>

#include "fuzz/reader.h"
#include "io/safetensors.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_safetensors_file(std::string_view input) {
  static const InputDirectory directory;
  const SafetensorsFile file = SafetensorsFile::open(directory.write("model.safetensors", input));
  std::vector<std::byte> staging(kSmallestStagingBytes);
  for (const TensorEntry& tensor : file.tensors()) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    file.read_into(tensor.name, bytes);
    if (!is_float(tensor.dtype)) continue;
    std::vector<float> values(bytes.size() / static_cast<size_t>(dtype_bytes(tensor.dtype)));
    file.read_converted(tensor.name, values, staging);
    std::vector<bfloat16> halves(values.size());
    file.read_converted(tensor.name, halves, staging);
  }
  file.tensor("a.weight");
}

const Registration kSafetensorsFileReader("safetensors_file", fuzz_safetensors_file);

}  // namespace
}  // namespace shoehorn::fuzz
