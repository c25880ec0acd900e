// JSON files. Reading is strict. Writing produces the bytes of Python's json.dumps, so that our file equals
// the one that transformers would have written, and diff can compare them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace shoehorn {

// Parses a text. As in Python, NaN, Infinity and -Infinity are numbers, and the last of equal keys wins. Keys
// come in sorted order. UserError "[what:line:column] expected JSON, …" for anything else that is malformed,
// including invalid UTF-8 and nesting deeper than 512.
nlohmann::json parse_json(std::string_view text, std::string_view what);

// What a JsonFilter sees: an object or array begins (returning false drops all of it) or ends, a key, a
// value.
enum class JsonEvent : uint8_t { kObjectStart, kObjectEnd, kArrayStart, kArrayEnd, kKey, kValue };

// Called for each element during parsing with the number of enclosing objects and arrays; returns whether to
// keep it. So a large part of a file need not become a tree in memory.
using JsonFilter = std::function<bool(int depth, JsonEvent event, const nlohmann::json& element)>;

// parse_json that keeps only what `filter` keeps.
nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonFilter& filter);

// parse_json of a file. UserError also if it does not exist; SystemError if it cannot be read.
nlohmann::json read_json(const std::filesystem::path& path);

// What the JSON library says is wrong, by its exception's text, without the prefix that names the exception and a place.
std::string json_reason(std::string_view text);

struct JsonFormat {
  int indent = 2;             // spaces per level; negative: one line with ", " and ": "
  bool sort_keys = true;      // has an effect for ordered_json only; json is always sorted
  bool ensure_ascii = true;   // writes other characters as \uXXXX
  bool final_newline = true;  // json.dump writes none, but most of transformers' files have one
};

// The text of json.dumps(value, …). Floats have the fewest digits that read back the same (0.1, 1e-05, 1e+16,
// 2.0, NaN, Infinity). UserError if a string is not UTF-8; InternalError for nlohmann's binary values.
std::string format_json(const nlohmann::json& value, const JsonFormat& format = {});
std::string format_json(const nlohmann::ordered_json& value, const JsonFormat& format = {});

// The value as an integer; nullopt if it is no integer or does not fit in int64.
std::optional<int64_t> whole_number(const nlohmann::json& value);

// Python's repr(float).
std::string format_python_float(double value);

// Writes a file that appears complete or not at all. SystemError on failure.
void write_json_atomic(const std::filesystem::path& path, const nlohmann::json& value,
                       const JsonFormat& format = {});
void write_json_atomic(const std::filesystem::path& path, const nlohmann::ordered_json& value,
                       const JsonFormat& format = {});

}  // namespace shoehorn
