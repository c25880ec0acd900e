// Values of arguments from and to text and JSON.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/config_value.h"
#include "base/error.h"
#include "base/format.h"
#include "base/strip.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

// A number has one sign: +-5 is none.
template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T number{};
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> number = parse_whole<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

KwargValue parse_scalar(const std::string& text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (const auto integer = parse_whole<int64_t>(text)) return *integer;
  if (const auto number = parse_number(text)) return *number;
  return text;
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = strip(text.substr(0, comma));
    if (!part.empty()) parts.emplace_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// The length of a repetition such as {1,3} that the text begins with; 0 if it begins with none.
size_t repetition_length(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789,", 1);
  return end != std::string_view::npos && text[end] == '}' ? end + 1 : 0;
}

// Regular expressions with commas between them. A comma of a class, a group or a repetition, and one behind a backslash, is
// the expression's own.
std::vector<std::string> split_patterns(std::string_view text) {
  std::vector<std::string> patterns;
  size_t begin = 0;
  int64_t groups = 0;
  bool in_class = false;
  const auto take = [&](size_t end) {
    if (const std::string_view pattern = strip(text.substr(begin, end - begin)); !pattern.empty())
      patterns.emplace_back(pattern);
    begin = end + 1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++groups;
    } else if (c == ')') {
      --groups;
    } else if (c == '{') {
      i += std::max<size_t>(repetition_length(text.substr(i)), 1) - 1;
    } else if (c == ',' && groups <= 0) {
      take(i);
    }
  }
  take(text.size());
  return patterns;
}

// A whole number that an int64_t holds.
bool is_whole(const Json& json) {
  return json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX);
}

Kwargs kwargs_from_json(const Json& json, std::string_view source) {
  if (!json.is_object()) throw user_error("[{}] expected a JSON object, got {}", source, json.dump());
  Kwargs kwargs;
  for (const auto& [key, value] : json.items()) {
    if (value.is_boolean()) {
      kwargs[key] = value.get<bool>();
    } else if (is_whole(value)) {
      kwargs[key] = value.get<int64_t>();
    } else if (value.is_number() && std::isfinite(value.get<double>())) {
      kwargs[key] = value.get<double>();
    } else if (value.is_string()) {
      kwargs[key] = parse_scalar(value.get<std::string>());
    } else if (!value.is_null()) {
      throw user_error("[{}: {}] expected a boolean, a number or a text, got {}", source, key,
                       json_line(value));
    }
  }
  return kwargs;
}

bool is_lacking(const ArgumentSpec& spec) {
  return spec.status == ArgumentStatus::kNotYet || spec.status == ArgumentStatus::kRefused;
}

Kwargs kwargs_from_text(const std::string& text, std::string_view source) {
  if (strip(text).starts_with('{')) return kwargs_from_json(parse_json(text, source), source);
  Kwargs kwargs;
  for (const std::string_view part : split_commas(text)) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw user_error("[{}] expected name=value pairs or a JSON object, got '{}'", source, text);
    }
    kwargs[std::string(strip(part.substr(0, equals)))] =
        parse_scalar(std::string(strip(part.substr(equals + 1))));
  }
  return kwargs;
}

// JSON that a row's kind takes as it is; everything else goes through its text.
bool is_plain(ArgumentKind kind, const Json& json) {
  switch (kind) {
    case ArgumentKind::kFlag:
      return json.is_boolean();
    case ArgumentKind::kInteger:
      return is_whole(json);
    case ArgumentKind::kNumber:
      return json.is_number() && std::isfinite(json.get<double>());
    default:
      return false;
  }
}

ArgumentValue plain_value(ArgumentKind kind, const Json& json) {
  if (kind == ArgumentKind::kFlag) return json.get<bool>();
  if (kind == ArgumentKind::kNumber) return json.get<double>();
  return json.get<int64_t>();
}

}  // namespace

std::optional<bool> parse_boolean(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  static constexpr std::array<std::string_view, 6> kTrue = {"true", "1", "yes", "on", "t", "y"};
  static constexpr std::array<std::string_view, 6> kFalse = {"false", "0", "no", "off", "f", "n"};
  if (std::find(kTrue.begin(), kTrue.end(), lower) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), lower) != kFalse.end()) return false;
  return std::nullopt;
}

ArgumentValue argument_from_text(const ArgumentSpec& spec, const std::string& text, std::string_view source) {
  switch (spec.kind) {
    case ArgumentKind::kFlag: {
      const std::optional<bool> flag = parse_boolean(text);
      if (!flag) throw user_error("[{}] expected true or false, got '{}'", source, text);
      return *flag;
    }
    case ArgumentKind::kInteger: {
      const auto integer = parse_whole<int64_t>(text);
      if (!integer) throw user_error("[{}] expected an integer, got '{}'", source, text);
      return *integer;
    }
    case ArgumentKind::kNumber: {
      const auto number = parse_number(text);
      if (!number) throw user_error("[{}] expected a number, got '{}'", source, text);
      return *number;
    }
    case ArgumentKind::kBytes:
      return parse_bytes(text, source);
    case ArgumentKind::kList:
      return spec.lists_patterns ? split_patterns(text) : split_commas(text);
    case ArgumentKind::kKwargs:
      // The name of a configuration file, of what is refused whatever it holds.
      if (is_lacking(spec) && text.ends_with(".json")) return text;
      return kwargs_from_text(text, source);
    case ArgumentKind::kText: {
      if (spec.true_text.empty()) return text;
      // 0 and 1 may be names; only words are booleans here.
      const std::optional<bool> flag = text.size() > 1 ? parse_boolean(text) : std::nullopt;
      return !flag || text == "no" ? text : std::string(*flag ? spec.true_text : spec.false_text);
    }
    case ArgumentKind::kFromField:
      break;
  }
  CHECK(false, "row {} has no kind", spec.name);
}

ArgumentValue argument_from_json(const ArgumentSpec& spec, const Json& json, std::string_view source) {
  if (json.is_null()) return {};
  if (is_plain(spec.kind, json)) return plain_value(spec.kind, json);
  if (spec.kind == ArgumentKind::kKwargs && json.is_object()) return kwargs_from_json(json, source);
  if (spec.kind == ArgumentKind::kList && json.is_array()) {
    std::vector<std::string> list;
    for (const Json& item : json) list.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    return list;
  }
  if (spec.takes_json && json.is_object() && !json.empty()) return json_line(json);
  if (json.is_object() || json.is_array()) {
    if (json.empty() && spec.kind == ArgumentKind::kText) return std::string();
    throw user_error("[{}] expected a single value, got {}", source, json.dump());
  }
  return argument_from_text(spec, json.is_string() ? json.get<std::string>() : json_line(json), source);
}

std::string argument_to_text(const ArgumentValue& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return "nothing"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t integer) const { return std::to_string(integer); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const {
      return text.empty() ? "nothing" : "'" + text + "'";
    }
    std::string operator()(const std::vector<std::string>& list) const {
      return list.empty() ? "nothing" : fmt::format("{}", fmt::join(list, ","));
    }
    std::string operator()(const Kwargs& kwargs) const {
      std::string text;
      for (const auto& [key, item] : kwargs) {
        if (!text.empty()) text += ',';
        text += key + "=";
        const std::string* word = std::get_if<std::string>(&item);
        text += word != nullptr ? *word
                                : std::visit([this](const auto& scalar) { return (*this)(scalar); }, item);
      }
      return text.empty() ? "nothing" : text;
    }
  };
  return std::visit(Writer{}, value);
}

Json argument_to_json(const ArgumentValue& value) {
  struct Writer {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(const Kwargs& kwargs) const {
      Json object = Json::object();
      for (const auto& [key, item] : kwargs) {
        object[key] = std::visit([](const auto& scalar) { return Json(scalar); }, item);
      }
      return object;
    }
    Json operator()(bool flag) const { return flag; }
    Json operator()(int64_t integer) const { return integer; }
    Json operator()(double number) const { return number; }
    Json operator()(const std::string& text) const { return text; }
    Json operator()(const std::vector<std::string>& list) const { return list; }
  };
  return std::visit(Writer{}, value);
}

void apply_text(const ArgumentSpec& spec, const std::string& text, std::string_view source,
                TrainingArguments& args) {
  const ArgumentValue value = argument_from_text(spec, text, source);
  check_argument(spec, value, source);
  if (spec.rewrite == nullptr) {
    set_argument(spec, value, args);
    return;
  }
  for (const auto& [name, meaning] : spec.rewrite(text, args)) {
    const ArgumentSpec* target = find_argument(name);
    CHECK(target != nullptr && target->rewrite == nullptr, "{} stands for {}", spec.name, name);
    apply_text(*target, meaning, fmt::format("{}, which is {} {}", source, name, meaning), args);
  }
}

void apply_json(const Json& object, const std::string& source, TrainingArguments& args) {
  if (!object.is_object())
    throw user_error("[{}] expected a JSON object of flags, got {}", source, object.type_name());
  for (const auto& [key, json] : object.items()) {
    const std::string key_source = fmt::format("{}: {}", source, key);
    const ArgumentSpec* spec = find_argument(key);
    if (spec == nullptr) {
      throw user_error("[{}] expected a known flag, got '{}'{}", key_source, key, unknown_key_hint(key));
    }
    if (spec->name == "config") {
      throw user_error("[{}] expected flags, got another configuration file; give it on the command line",
                       key_source);
    }
    if (spec->rewrite != nullptr) {
      if (json.is_null()) continue;
      if (json.is_array() && json.empty()) continue;
      apply_text(*spec, json.is_string() ? json.get<std::string>() : json.dump(), key_source, args);
      continue;
    }
    const ArgumentValue value = argument_from_json(*spec, json, key_source);
    check_argument(*spec, value, key_source);
    set_argument(*spec, value, args);
  }
}

}  // namespace shoehorn
