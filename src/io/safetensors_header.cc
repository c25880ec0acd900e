#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

using nlohmann::json;

struct DTypeName {
  std::string_view name;
  DType dtype;
};
// In the order in which Hugging Face's writer lays tensors out.
constexpr std::array<DTypeName, 10> kDTypeNames = {
    DTypeName{"I64", DType::kI64}, {"F64", DType::kF64},   {"F32", DType::kF32},
    {"I32", DType::kI32},          {"BF16", DType::kBF16}, {"F16", DType::kF16},
    {"I16", DType::kI16},          {"I8", DType::kI8},     {"U8", DType::kU8},
    {"BOOL", DType::kBool}};

size_t rank_of(DType dtype) {
  for (size_t i = 0; i < kDTypeNames.size(); ++i) {
    if (kDTypeNames[i].dtype == dtype) return i;
  }
  throw InternalError("[dtype] unknown element type");
}

// Product of the dims and the element size; -1 if it leaves 63 bits on the way.
int64_t checked_bytes(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) return -1;
  }
  return bytes;
}

// Makes a text from a possibly hostile file fit for a message: short, and without control characters (a NUL
// would end it).
std::string shortened(std::string_view text) {
  constexpr size_t kMost = 120;
  std::string result;
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<uint8_t>(c);
    result += byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text.size() <= kMost ? result : result + "…";
}

// Receives nlohmann's SAX events and accepts only the layout of a header. So no tree is built, duplicate keys
// are seen, and nesting is bounded. Names and argument types are nlohmann's.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view what) : what_(what) {}

  // Offsets are still relative to the data, and unchecked against the shapes and each other.
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(size_t /*count*/) {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
        tensor_ = TensorEntry{key_, DType::kF32, {}, 0, 0};
        has_dtype_ = has_shape_ = has_offsets_ = false;
        return true;
      default:
        return reject("an object");
    }
  }

  bool key(std::string& name) {
    if (place_ == Place::kTop) {
      if (!names_.insert(name).second) fail(name, "each name once", "it twice");
    } else if (place_ == Place::kMetadata) {
      if (header_.metadata.contains(name))
        fail("__metadata__", "each key once", "'" + shortened(name) + "' twice");
    } else {
      bool* const has = name == "dtype"          ? &has_dtype_
                        : name == "shape"        ? &has_shape_
                        : name == "data_offsets" ? &has_offsets_
                                                 : nullptr;
      if (has == nullptr)
        fail(tensor_.name, "only dtype, shape and data_offsets", "'" + shortened(name) + "'");
      if (std::exchange(*has, true)) fail(tensor_.name, "each key once", "'" + name + "' twice");
    }
    if (place_ == Place::kTensor)
      field_ = name;
    else
      key_ = name;
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_) {
        fail(tensor_.name, "dtype, shape and data_offsets",
             fmt::format("no {}", !has_dtype_   ? "dtype"
                                  : !has_shape_ ? "shape"
                                                : "data_offsets"));
      }
      header_.tensors.push_back(std::move(tensor_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(size_t /*count*/) {
    if (place_ != Place::kTensor || field_ == "dtype") return reject("an array");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_.clear();
    return true;
  }

  bool end_array() {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() != 2)
        fail(tensor_.name, "data_offsets [begin, end]", fmt::format("{} numbers", offsets_.size()));
      // The end waits in `bytes` until the offsets are checked.
      std::tie(tensor_.file_offset, tensor_.bytes) = std::pair(offsets_[0], offsets_[1]);
    }
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(uint64_t value) {
    if (place_ != Place::kShape && place_ != Place::kOffsets)
      return reject(fmt::format("the number {}", value));
    if (!std::in_range<int64_t>(value)) return reject(fmt::format("{}", value));
    if (place_ == Place::kOffsets && offsets_.size() == 2)
      fail(tensor_.name, "data_offsets [begin, end]", "a third number");
    (place_ == Place::kShape ? tensor_.shape : offsets_).push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype") return reject("the string '" + shortened(value) + "'");
    const auto* known = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                     [&](const DTypeName& one) { return one.name == value; });
    if (known == kDTypeNames.end()) {
      fail(tensor_.name, "dtype F32, BF16, F16, F64, I64, I32, I16, I8, U8 or BOOL",
           "'" + shortened(value) + "'");
    }
    tensor_.dtype = known->dtype;
    return true;
  }

  bool number_integer(int64_t value) { return reject(fmt::format("the number {}", value)); }
  bool number_float(double /*value*/, const std::string& text) {
    return reject("the number " + shortened(text));
  }
  bool boolean(bool value) { return reject(value ? "true" : "false"); }
  bool null() { return reject("null"); }
  bool binary(std::vector<uint8_t>& /*value*/) { return reject("binary data"); }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    throw user_error("[{}: header] expected JSON, got {} at byte {} of the header; is this file complete?",
                     what_, json_reason(error.what()), position);
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  [[noreturn]] void fail(std::string_view tensor, std::string_view expected, std::string_view got) const {
    throw user_error("[{}: tensor '{}'] expected {}, got {}; the file is damaged or not safetensors", what_,
                     shortened(tensor), expected, got);
  }

  // A value where the layout has no such value.
  [[noreturn]] bool reject(std::string_view got) const {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd:
        throw user_error("[{}: header] expected a JSON object, got {}; is it a safetensors file?", what_,
                         got);
      case Place::kTop:
        fail(key_, "an object", got);
      case Place::kMetadata:
        fail("__metadata__", "a string for '" + shortened(key_) + "'", got);
      case Place::kShape:
        fail(tensor_.name, "dims from 0 to 2^63 - 1", got);
      case Place::kOffsets:
        fail(tensor_.name, "data_offsets from 0 to 2^63 - 1", got);
      case Place::kTensor:
        fail(tensor_.name, field_ == "dtype" ? "a string as dtype" : "an array as " + field_, got);
    }
    throw InternalError("[safetensors header] unknown place");
  }

  std::string what_;
  SafetensorsHeader header_;
  std::set<std::string, std::less<>> names_;
  Place place_ = Place::kStart;
  std::string key_;    // last key of the top object or of __metadata__
  std::string field_;  // last key of the tensor
  TensorEntry tensor_;
  std::vector<int64_t> offsets_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

// Checks each tensor's offsets against its shape and dtype, then all offsets against each other and the size
// of the data.
void check_offsets(SafetensorsHeader& header, int64_t data_bytes, std::string_view what) {
  const auto fail = [&](const TensorEntry& tensor, const std::string& expected, const std::string& got) {
    throw user_error("[{}: tensor '{}'] expected {}, got {}; the file is damaged or cut short", what,
                     shortened(tensor.name), expected, got);
  };
  for (TensorEntry& tensor : header.tensors) {
    const int64_t begin = tensor.file_offset;
    const int64_t end = tensor.bytes;
    const int64_t needed = checked_bytes(tensor.dtype, tensor.shape);
    const std::string shape = shortened(fmt::format("{}", fmt::join(tensor.shape, ", ")));
    if (needed < 0) fail(tensor, "a shape whose bytes fit in 63 bits", fmt::format("[{}]", shape));
    if (begin > end || end > data_bytes) {
      fail(tensor, fmt::format("data_offsets within the {} bytes of data, begin first", data_bytes),
           fmt::format("[{}, {}]", begin, end));
    }
    if (end - begin != needed) {
      fail(tensor,
           fmt::format("{} bytes for {} of shape [{}]", needed, safetensors_dtype(tensor.dtype), shape),
           fmt::format("data_offsets [{}, {}], which is {} bytes", begin, end, end - begin));
    }
    tensor.bytes = needed;
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.file_offset, a.bytes, a.name) < std::tie(b.file_offset, b.bytes, b.name);
  });
  int64_t at = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.file_offset != at) {
      fail(tensor, fmt::format("data from byte {} on, where the tensor before it ends", at),
           fmt::format("byte {}, which leaves {}", tensor.file_offset,
                       tensor.file_offset < at ? "an overlap" : "a hole"));
    }
    at += tensor.bytes;
  }
  if (at != data_bytes) {
    throw user_error(
        "[{}: data] expected {} bytes, the sum of its tensors, got {}; {} bytes belong to no tensor", what,
        at, data_bytes, data_bytes - at);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes, std::string_view what) {
  CHECK(data_bytes >= 0, "{} bytes of data", data_bytes);
  if (text.empty() || text[0] != '{') {
    throw user_error(
        "[{}: header] expected a JSON object, got {}; is it a safetensors file?", what,
        text.empty() ? std::string("nothing") : fmt::format("byte {:#04x}", static_cast<uint8_t>(text[0])));
  }
  // nlohmann takes NUL for the end of the text and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw user_error(
        "[{}: header] expected JSON, got a NUL byte at byte {} of the header; is this file complete?", what,
        nul);
  }
  HeaderReader reader(what);
  json::sax_parse(text, &reader);
  SafetensorsHeader header = reader.take();
  check_offsets(header, data_bytes, what);
  for (TensorEntry& tensor : header.tensors) {
    tensor.file_offset += kSafetensorsLengthBytes + static_cast<int64_t>(text.size());
  }
  return header;
}

std::string format_safetensors_header(const std::vector<TensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  const auto quoted = [](const std::string& text) {
    try {
      return json(text).dump();
    } catch (const json::type_error&) {
      throw user_error("[safetensors: tensor '{}'] expected a name in UTF-8, got other bytes",
                       shortened(text));
    }
  };
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", quoted(key), quoted(value));
    }
    text += '}';
  }
  std::set<std::string_view> names = {"__metadata__"};
  int64_t at = 0;
  for (const TensorSpec& tensor : tensors) {
    CHECK(names.insert(tensor.name).second, "tensor name '{}' is reserved or given twice", tensor.name);
    const int64_t begin = at;
    if (__builtin_add_overflow(at, tensor_bytes(tensor), &at)) {
      throw user_error("[safetensors: tensor '{}'] expected a file whose bytes fit in 63 bits, got more",
                       shortened(tensor.name));
    }
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", quoted(tensor.name), safetensors_dtype(tensor.dtype),
                        fmt::join(tensor.shape, ","), begin, at);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<uint64_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

int64_t tensor_bytes(const TensorSpec& tensor) {
  const int64_t bytes = checked_bytes(tensor.dtype, tensor.shape);
  if (bytes < 0) {
    throw user_error("[safetensors: tensor '{}'] expected a shape whose bytes fit in 63 bits, got [{}]",
                     shortened(tensor.name), fmt::join(tensor.shape, ", "));
  }
  return bytes;
}

void sort_as_hugging_face(std::vector<TensorSpec>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::pair<size_t, const std::string&>(rank_of(a.dtype), a.name) <
           std::pair<size_t, const std::string&>(rank_of(b.dtype), b.name);
  });
}

std::string_view safetensors_dtype(DType dtype) {
  return kDTypeNames[rank_of(dtype)].name;
}

}  // namespace shoehorn
