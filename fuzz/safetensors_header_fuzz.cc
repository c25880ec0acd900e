// The JSON of a safetensors header (io/safetensors_header.h): tensors fill the data, and a header that is
// written of them reads back the same. The first two bytes of an input are the size of the data.
#include "base/error.h"
#include "fuzz/reader.h"
#include "io/safetensors_header.h"

namespace shoehorn::fuzz {
namespace {

// Of each tensor, without the place that follows from the header's length.
std::vector<TensorSpec> specs_of(const SafetensorsHeader& header) {
  std::vector<TensorSpec> specs;
  for (const TensorEntry& tensor : header.tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  return specs;
}

void fuzz_safetensors_header(std::string_view input) {
  if (input.size() < 2) return;
  const int64_t data_bytes = static_cast<uint8_t>(input[0]) + 256 * static_cast<uint8_t>(input[1]);
  const std::string_view text = input.substr(2);
  const SafetensorsHeader header = parse_safetensors_header(text, data_bytes, "input.safetensors");
  int64_t at = kSafetensorsLengthBytes + static_cast<int64_t>(text.size());
  for (const TensorEntry& tensor : header.tensors) {
    CHECK(tensor.file_offset == at && tensor.bytes == tensor_bytes({tensor.name, tensor.dtype, tensor.shape}),
          "tensor '{}' lies elsewhere", tensor.name);
    at += tensor.bytes;
  }
  CHECK(at == kSafetensorsLengthBytes + static_cast<int64_t>(text.size()) + data_bytes, "data are left over");

  const std::vector<TensorSpec> specs = specs_of(header);
  const std::string written = format_safetensors_header(specs, header.metadata);
  const SafetensorsHeader again =
      parse_safetensors_header(written.substr(kSafetensorsLengthBytes), data_bytes, "written.safetensors");
  CHECK(again.metadata == header.metadata && again.tensors.size() == specs.size(), "another header");
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorEntry& tensor = again.tensors[i];
    CHECK(tensor.name == specs[i].name && tensor.dtype == specs[i].dtype && tensor.shape == specs[i].shape,
          "tensor '{}' reads back as '{}'", specs[i].name, tensor.name);
  }
}

const Registration kSafetensorsHeaderReader("safetensors_header", fuzz_safetensors_header);

}  // namespace
}  // namespace shoehorn::fuzz
