// The header of a safetensors file (https://huggingface.co/docs/safetensors): u64 length n, n bytes of JSON,
// data.
//
//   {"__metadata__": {"format": "pt"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//
// Offsets count from the first byte of data. Tensors lie back to back: no hole, no overlap, nothing behind
// the last.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace shoehorn {

// Bytes of the length field.
inline constexpr int64_t kSafetensorsLengthBytes = 8;
// The longest header that Hugging Face's own reader takes.
inline constexpr int64_t kLongestSafetensorsHeader = 100'000'000;

// A tensor to be written. The shape's dims are outermost first; () is a scalar; a dim may be 0.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// A tensor that lies in a file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t file_offset = 0;  // from the first byte of the file
  int64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in file order
  std::map<std::string, std::string> metadata;
};

// Parses and validates the JSON of a header. `data_bytes` is what follows it in the file, `what` names the
// file in messages. UserError naming file, tensor, expected and found on every malformation: not JSON, not
// the layout above, a key twice, a dtype unknown or one we do not hold, dims or offsets negative, too large
// or at odds with each other, holes, overlaps, bytes left over.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes, std::string_view what);

// Length field and JSON, padded with spaces to a multiple of 8 bytes, for tensors laid out in the order
// given: the same bytes as Hugging Face's writer for the same order. UserError if a name is not UTF-8;
// InternalError on a name twice.
std::string format_safetensors_header(const std::vector<TensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata);

// Bytes of one tensor's data. UserError if they do not fit in 63 bits.
int64_t tensor_bytes(const TensorSpec& tensor);

// Sorts into the order in which Hugging Face's writer lays tensors out: larger element types first (I64, F64,
// F32, I32, BF16, F16, I16, I8, U8, BOOL), then by name.
void sort_as_hugging_face(std::vector<TensorSpec>& tensors);

// "F32", "BF16", …
std::string_view safetensors_dtype(DType dtype);

}  // namespace shoehorn
