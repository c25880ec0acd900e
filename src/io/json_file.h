// JSON files, read strictly and written byte for byte as Python's json.dumps writes them, so that a file of
// ours equals the one transformers would have written and can be compared with diff.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace shoehorn {

// The value a text holds. As Python does: NaN, Infinity and -Infinity are numbers, and of equal keys the last
// wins. Keys come in sorted order. UserError "[what:line:column] expected JSON, …" on anything else
// malformed, invalid UTF-8 and nesting deeper than 512 included.
nlohmann::json parse_json(std::string_view text, std::string_view what);

// What a JsonFilter is shown: an object or array that begins, with the filter's say on all of it, a key, a
// value.
enum class JsonEvent : uint8_t { kObjectStart, kObjectEnd, kArrayStart, kArrayEnd, kKey, kValue };

// Sees each element while a text is parsed, with the number of objects and arrays around it, and says whether
// it is kept: so a large part of a file needs not become a tree.
using JsonFilter = std::function<bool(int depth, JsonEvent event, const nlohmann::json& element)>;

// parse_json, which keeps what `filter` keeps.
nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonFilter& filter);

// parse_json of a file. UserError also if it does not exist, SystemError if it can't be read.
nlohmann::json read_json(const std::filesystem::path& path);

struct JsonFormat {
  int indent = 2;             // spaces a level; negative: one line with ", " and ": "
  bool sort_keys = true;      // matters only for ordered_json; json is always sorted
  bool ensure_ascii = true;   // other characters as \uXXXX
  bool final_newline = true;  // json.dump itself writes none; most of transformers' files end in one
};

// json.dumps(value, …): floats are the shortest that read back the same (0.1, 1e-05, 1e+16, 2.0, NaN,
// Infinity). UserError if a string is not UTF-8; InternalError on nlohmann's binary values.
std::string format_json(const nlohmann::json& value, const JsonFormat& format = {});
std::string format_json(const nlohmann::ordered_json& value, const JsonFormat& format = {});

// The whole number that a value is; nothing where it is of another kind, or too large for 63 bits.
std::optional<int64_t> whole_number(const nlohmann::json& value);

// Python's repr(float).
std::string format_python_float(double value);

// The file appears complete or not at all. SystemError if it can't be written.
void write_json_atomic(const std::filesystem::path& path, const nlohmann::json& value,
                       const JsonFormat& format = {});
void write_json_atomic(const std::filesystem::path& path, const nlohmann::ordered_json& value,
                       const JsonFormat& format = {});

}  // namespace shoehorn
