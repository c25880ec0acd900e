// The header of a safetensors file (https://huggingface.co/docs/safetensors). A file is a u64 length n, n
// bytes of JSON, then the data.
//
//   {"__metadata__": {"format": "pt"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//
// Offsets count from the first byte of the data. Tensors lie back to back: without gaps, overlaps or trailing
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace shoehorn {

// Size of the length field.
inline constexpr int64_t kSafetensorsLengthBytes = 8;
// The longest header that Hugging Face's reader accepts.
inline constexpr int64_t kLongestSafetensorsHeader = 100'000'000;

// A tensor to be written. `shape` has the outermost dimension first; () is a scalar; a dimension may be 0.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// A tensor in a file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t file_offset = 0;  // from the beginning of the file
  int64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in file order
  std::map<std::string, std::string> metadata;
};

// Parses and validates the JSON of a header. `data_bytes` is the size of the data behind it; `what` names the
// file in messages. UserError naming file, tensor, what was expected and what was found, for every
// malformation: no JSON, another layout, a duplicate key, an unknown or unsupported dtype, dimensions or
// offsets that are negative, too large or inconsistent, gaps, overlaps, trailing bytes.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes, std::string_view what);

// The length field and the JSON, padded with spaces to a multiple of 8 bytes, for tensors in the given order:
// the same bytes as Hugging Face's writer for that order. UserError if a name is not UTF-8; InternalError for
// a duplicate name.
std::string format_safetensors_header(const std::vector<TensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata);

// Size of one tensor's data. UserError if it does not fit in 63 bits.
int64_t tensor_bytes(const TensorSpec& tensor);

// Sorts into the order in which Hugging Face's writer lays tensors out: by element type, larger ones first
// (I64, F64, F32, I32, BF16, F16, I16, I8, U8, BOOL), then by name.
void sort_as_hugging_face(std::vector<TensorSpec>& tensors);

// The safetensors spelling: "F32", "BF16", …
std::string_view safetensors_dtype(DType dtype);

}  // namespace shoehorn
