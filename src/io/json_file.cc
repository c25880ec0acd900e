#include "io/json_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "io/file.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// nlohmann parses without recursion but copies and destroys with it: a deeper value could overflow the stack
// later.
constexpr int64_t kDeepestNesting = 512;

[[noreturn]] void fail_at(std::string_view text, size_t offset, std::string_view what,
                          std::string_view reason) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw user_error("[{}:{}:{}] expected JSON, got {}; correct the file there", what, line,
                   before.size() - line_start + 1, reason);
}

// Python's three words for non-finite numbers, which nlohmann's parser refuses. Each is replaced by a string
// that begins with NUL, which becomes the number after parsing.
struct NonFinite {
  std::string_view word;
  std::string_view placeholder;  // as JSON text
  std::string_view value;        // as the string it parses to
  double number;
};
constexpr std::array<NonFinite, 3> kNonFinite = {
    NonFinite{"NaN", "\"\\u0000NaN\"", {"\0NaN", 4}, std::numeric_limits<double>::quiet_NaN()},
    NonFinite{
        "-Infinity", "\"\\u0000-Infinity\"", {"\0-Infinity", 10}, -std::numeric_limits<double>::infinity()},
    NonFinite{"Infinity", "\"\\u0000Infinity\"", {"\0Infinity", 9}, std::numeric_limits<double>::infinity()}};

const NonFinite* non_finite_at(std::string_view text) {
  for (const NonFinite& one : kNonFinite) {
    if (text.starts_with(one.word)) return &one;
  }
  return nullptr;
}

struct Replaced {
  size_t end;  // offset behind the placeholder in the replaced text
  size_t added;
};

// What nlohmann gets to parse, and where it differs from the file.
struct Prepared {
  std::string text;
  std::vector<Replaced> replaced;
};

// One pass over the text outside of strings. It measures nesting, refuses NUL (which ends the text for
// nlohmann, so that the rest would be ignored), and replaces the non-finite numbers.
Prepared prepare(std::string_view text, std::string_view what) {
  Prepared result;
  result.text.reserve(text.size());
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      result.text += c;
      if (c == '\\' && i + 1 < text.size()) result.text += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '\0') fail_at(text, i, what, "a NUL byte");
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepestNesting)
      fail_at(text, i, what, fmt::format("nesting deeper than {}", kDeepestNesting));
    const NonFinite* word = c == 'N' || c == 'I' || c == '-' ? non_finite_at(text.substr(i)) : nullptr;
    if (word == nullptr) {
      result.text += c;
      continue;
    }
    result.text += word->placeholder;
    result.replaced.push_back({result.text.size(), word->placeholder.size() - word->word.size()});
    i += word->word.size() - 1;
  }
  return result;
}

void restore_non_finite(json& value, std::string_view what) {
  if (value.is_object()) {
    for (const NonFinite& one : kNonFinite) {
      if (value.contains(one.value))
        throw user_error("[{}] expected a string as a key, got {}; correct the file", what, one.word);
    }
  }
  if (value.is_structured()) {
    for (json& child : value) restore_non_finite(child, what);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    for (const NonFinite& one : kNonFinite) {
      if (text == one.value) {
        value = one.number;
        return;
      }
    }
  }
}

JsonEvent event_of(json::parse_event_t event) {
  switch (event) {
    case json::parse_event_t::object_start:
      return JsonEvent::kObjectStart;
    case json::parse_event_t::object_end:
      return JsonEvent::kObjectEnd;
    case json::parse_event_t::array_start:
      return JsonEvent::kArrayStart;
    case json::parse_event_t::array_end:
      return JsonEvent::kArrayEnd;
    case json::parse_event_t::key:
      return JsonEvent::kKey;
    case json::parse_event_t::value:
      break;
  }
  return JsonEvent::kValue;
}

void append_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    if (!first_utf8_sequence(text.substr(at)).is_valid)
      throw user_error("[json] expected UTF-8 text, got byte {:#04x} at position {} of a string",
                       static_cast<uint8_t>(text[at]), at);
    const int32_t code = decode_utf8(text, at);
    switch (code) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\b':
        out += "\\b";
        continue;
      case '\f':
        out += "\\f";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      default:
        break;
    }
    if (code >= 0x20 && (code < 0x7F || !ensure_ascii)) {
      out += text.substr(start, at - start);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                         0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  out += '"';
}

template <typename Json>
class Formatter {
 public:
  explicit Formatter(const JsonFormat& format) : format_(format) {}

  void append(const Json& value, int level) {
    switch (value.type()) {
      case Json::value_t::null:
        out_ += "null";
        return;
      case Json::value_t::boolean:
        out_ += value.template get<bool>() ? "true" : "false";
        return;
      case Json::value_t::number_integer:
        out_ += fmt::format("{}", value.template get<int64_t>());
        return;
      case Json::value_t::number_unsigned:
        out_ += fmt::format("{}", value.template get<uint64_t>());
        return;
      case Json::value_t::number_float:
        out_ += format_python_float(value.template get<double>());
        return;
      case Json::value_t::string:
        return append_string(out_, value.template get_ref<const std::string&>(), format_.ensure_ascii);
      case Json::value_t::array:
        return append_array(value, level);
      case Json::value_t::object:
        return append_object(value, level);
      default:
        throw InternalError("[json] expected a value that JSON has, got a binary or discarded one");
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void append_array(const Json& value, int level) {
    out_ += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      begin_item(i, level + 1);
      append(value[i], level + 1);
    }
    end_items(value.size(), level);
    out_ += ']';
  }

  void append_object(const Json& value, int level) {
    std::vector<typename Json::const_iterator> members;
    for (auto member = value.begin(); member != value.end(); ++member) members.push_back(member);
    if (format_.sort_keys) {
      std::sort(members.begin(), members.end(),
                [](const auto& a, const auto& b) { return a.key() < b.key(); });
    }
    out_ += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      begin_item(i, level + 1);
      append_string(out_, members[i].key(), format_.ensure_ascii);
      out_ += ": ";
      append(members[i].value(), level + 1);
    }
    end_items(members.size(), level);
    out_ += '}';
  }

  void begin_item(size_t index, int level) {
    if (index > 0) out_ += format_.indent < 0 ? ", " : ",";
    start_line(level);
  }
  void end_items(size_t count, int level) {
    if (count > 0) start_line(level);
  }
  void start_line(int level) {
    if (format_.indent < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(format_.indent) * static_cast<size_t>(level), ' ');
  }

  JsonFormat format_;
  std::string out_;
};

template <typename Json>
std::string format_any(const Json& value, const JsonFormat& format) {
  Formatter<Json> formatter(format);
  formatter.append(value, 0);
  std::string text = formatter.take();
  if (format.final_newline) text += '\n';
  return text;
}

}  // namespace

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" and "[json.exception.out_of_range.406] …".
std::string json_reason(std::string_view text) {
  if (const size_t column = text.find(", column "); column != std::string_view::npos) {
    if (const size_t colon = text.find(": ", column); colon != std::string_view::npos)
      return std::string(text.substr(colon + 2));
  }
  const size_t bracket = text.find("] ");
  return std::string(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

json parse_json(std::string_view text, std::string_view what) {
  return parse_json(text, what, nullptr);
}

json parse_json(std::string_view text, std::string_view what, const JsonFilter& filter) {
  const Prepared prepared = prepare(text, what);
  json::parser_callback_t callback;
  if (filter) {
    callback = [&filter](int depth, json::parse_event_t event, const json& element) {
      return filter(depth, event_of(event), element);
    };
  }
  try {
    json value = json::parse(prepared.text, callback);
    if (!prepared.replaced.empty()) restore_non_finite(value, what);
    return value;
  } catch (const json::parse_error& error) {
    const size_t at = error.byte == 0 ? 0 : error.byte - 1;
    size_t added = 0;
    for (const Replaced& one : prepared.replaced) added += one.end <= at ? one.added : 0;
    fail_at(text, at - added, what, json_reason(error.what()));
  } catch (const json::exception& error) {
    throw user_error("[{}] expected JSON, got {}; correct the file", what, json_reason(error.what()));
  }
}

json read_json(const std::filesystem::path& path) {
  return parse_json(read_text_file(path), path.string());
}

std::optional<int64_t> whole_number(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

std::string format_python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  // to_chars finds the shortest digits that read back the same, "-d.ddde-05"; Python lays them out without an
  // exponent from 1e-4 up to 1e16.
  std::array<char, 32> buffer{};
  const auto written =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(written.ptr - buffer.data()));
  const size_t mark = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(mark + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(text);

  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string format_json(const json& value, const JsonFormat& format) {
  return format_any(value, format);
}

std::string format_json(const nlohmann::ordered_json& value, const JsonFormat& format) {
  return format_any(value, format);
}

void write_json_atomic(const std::filesystem::path& path, const json& value, const JsonFormat& format) {
  write_text_atomic(path, format_json(value, format));
}

void write_json_atomic(const std::filesystem::path& path, const nlohmann::ordered_json& value,
                       const JsonFormat& format) {
  write_text_atomic(path, format_json(value, format));
}

}  // namespace shoehorn
