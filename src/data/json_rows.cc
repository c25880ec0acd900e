// JSON lines, and one JSON array of objects. Values go from the parser straight into columns: no document is
// built.
#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/table_formats.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

struct Value {
  std::string text;
  CellKind kind = CellKind::kNull;
  bool present = false;
};

ListElement list_element(const Json& element) {
  if (element.is_string()) return {element.get<std::string>(), CellKind::kString};
  const CellKind kind = element.is_null()                                               ? CellKind::kNull
                        : element.is_boolean()                                          ? CellKind::kString
                        : element.is_number_integer() && element.get<double>() < 0x1p63 ? CellKind::kInteger
                                                                                        : CellKind::kReal;
  return {kind == CellKind::kNull ? std::string() : element.dump(), kind};
}

// Takes the events of the JSON parser. The first object sets the columns; each object becomes a row.
class RowHandler : public nlohmann::json_sax<Json> {
 public:
  RowHandler(const LineReader& lines, bool in_array, bool may_differ, TableBuilder& builder)
      : lines_(lines), in_array_(in_array), may_differ_(may_differ), builder_(builder) {
    // Of later files only what the first one has is read.
    if (may_differ && !builder.column_names().empty()) take_columns(builder.column_names(), 0);
  }

  bool null() override { return in_list_ ? element("null") : value("", CellKind::kNull); }
  bool boolean(bool v) override {
    const char* const text = v ? "true" : "false";
    return in_list_ ? element(text) : value(text, CellKind::kString);
  }
  bool number_integer(number_integer_t v) override { return number(std::to_string(v), CellKind::kInteger); }
  bool number_unsigned(number_unsigned_t v) override {
    const bool fits = v <= static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    return number(std::to_string(v), fits ? CellKind::kInteger : CellKind::kReal);
  }
  bool number_float(number_float_t, const string_t& text) override { return number(text, CellKind::kReal); }
  bool string(string_t& v) override {
    return in_list_ ? element(Json(v).dump()) : value(v, CellKind::kString);
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (in_object_) {
      if (!may_differ_) nested("an object");
      ++skipped_;
      return true;
    }
    in_object_ = true;
    line_ = lines_.line_number();
    next_ = 0;
    for (Value& v : values_) v.present = false;
    return true;
  }

  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    if (!has_columns_) {
      names_.push_back(name);
      values_.emplace_back();
      current_ = values_.size() - 1;
      return true;
    }
    // Objects of one file mostly have their keys in the same order.
    current_ = next_;
    if (current_ >= names_.size() || names_[current_] != name) {
      const auto place = places_.find(name);
      current_ = place == places_.end() ? names_.size() : place->second;
    }
    if (current_ == names_.size() && may_differ_) return true;
    if (current_ == names_.size()) {
      throw user_error(
          "[{}:{}] expected the keys of the first object ({}), got another key '{}'; give every row the same "
          "keys",
          lines_.source(), lines_.line_number(), fmt::join(names_, ", "), name);
    }
    if (values_[current_].present) {
      throw user_error("[{}:{}] expected every key once, got '{}' twice", lines_.source(),
                       lines_.line_number(), name);
    }
    next_ = current_ + 1;
    return true;
  }

  bool end_object() override {
    if (skipped_ > 0) return end_skipped();
    in_object_ = false;
    if (!has_columns_) {
      if (names_.empty())
        throw user_error("[{}:{}] expected an object with keys, got an empty one", lines_.source(), line_);
      take_columns(names_, line_);
    }
    const auto missing =
        std::find_if(values_.begin(), values_.end(), [](const Value& v) { return !v.present; });
    if (missing != values_.end() && !may_differ_) {
      throw user_error(
          "[{}:{}] expected {} keys as in the first object, got {}: '{}' is missing; give every row the same "
          "keys",
          lines_.source(), line_, values_.size(),
          std::count_if(values_.begin(), values_.end(), [](const Value& v) { return v.present; }),
          names_[static_cast<size_t>(missing - values_.begin())]);
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].present) {
        builder_.append(i, values_[i].text, values_[i].kind);
      } else {
        builder_.append(i, "", CellKind::kAbsent);
      }
    }
    builder_.end_row(line_);
    return true;
  }

  bool start_array(std::size_t) override {
    if (skipped_ > 0 || (in_list_ && may_differ_)) {
      ++skipped_;
      return true;
    }
    if (in_object_ && !in_list_) {
      in_list_ = true;
      list_ = "[";
      return true;
    }
    if (in_object_ || !in_array_ || array_open_) nested("an array");
    array_open_ = true;
    return true;
  }
  bool end_array() override {
    if (skipped_ > 0) return end_skipped();
    if (!in_list_) return true;
    in_list_ = false;
    const bool is_plain = !std::exchange(list_has_skipped_, false);
    return value(is_plain ? list_ + ']' : "", is_plain ? CellKind::kList : CellKind::kObject);
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // The parser's own place counts bytes of its input; the useful part of its text comes after the last ":
    // ".
    const std::string_view text = error.what();
    const size_t cut = text.rfind("; expected");
    const size_t begin = text.find("syntax error");
    throw user_error(
        "[{}:{}] expected {}, got malformed JSON ({}); write one object a line, or one array of objects",
        lines_.source(), lines_.line_number(), in_array_ ? "an array of objects" : "one JSON object",
        begin == std::string_view::npos ? json_reason(text)
                                        : std::string(text.substr(begin, cut < begin ? cut : cut - begin)));
  }

 private:
  void take_columns(const std::vector<std::string>& names, int64_t line) {
    names_ = names;
    values_.resize(names_.size());
    builder_.set_columns(names_, line);
    has_columns_ = true;
    for (size_t i = 0; i < names_.size(); ++i) places_.emplace(names_[i], i);
  }

  // An object within a cell, or a list within its list, is over.
  bool end_skipped() {
    if (--skipped_ > 0) return true;
    if (!in_list_) return value("", CellKind::kObject);
    list_has_skipped_ = true;
    return true;
  }

  bool value(std::string_view text, CellKind kind) {
    if (skipped_ > 0) return true;
    if (!in_object_) nested("a bare value");
    if (current_ == values_.size()) return true;  // of a key that is not read
    Value& cell = values_[current_];
    cell.text = text;
    cell.kind = kind;
    cell.present = true;
    return true;
  }

  bool number(const std::string& text, CellKind kind) { return in_list_ ? element(text) : value(text, kind); }

  // One of a list, as JSON.
  bool element(const std::string& text) {
    if (skipped_ > 0) return true;
    if (list_.size() > 1) list_ += ", ";
    list_ += text;
    return true;
  }

  [[noreturn]] void nested(std::string_view found) const {
    const bool in_cell = in_object_ && current_ < names_.size();
    throw user_error(
        "[{}:{}] expected {}, got {}{}; write one object a line, or one array of objects, with plain values or "
        "lists of them",
        lines_.source(), lines_.line_number(),
        in_list_     ? "a text, number or boolean in a list"
        : in_object_ ? "a text, number, boolean, null or list"
                     : "an object",
        found, in_cell ? fmt::format(" under '{}'", names_[current_]) : "");
  }

  const LineReader& lines_;
  bool in_array_;
  bool array_open_ = false;
  bool may_differ_;
  TableBuilder& builder_;
  bool has_columns_ = false;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, size_t> places_;  // of the names, once all are known
  std::vector<Value> values_;
  size_t current_ = 0;
  size_t next_ = 0;
  bool in_object_ = false;
  bool in_list_ = false;
  bool list_has_skipped_ = false;
  int64_t skipped_ = 0;  // how deep in what is not read
  std::string list_;
  int64_t line_ = 0;
};

// The parser takes a NUL for the end of its text and would leave out what follows.
bool next_valid_line(LineReader& lines, std::string& line) {
  if (!lines.next(line)) return false;
  if (line.find('\0') != std::string::npos) {
    throw user_error("[{}:{}] expected JSON, got a NUL byte in it; write one inside a string as \\u0000",
                     lines.source(), lines.line_number());
  }
  return true;
}

// The remaining characters of the lines, for the parser to pull: an input iterator. All copies share one
// position, so lines_.line_number() is where the parser is.
class CharacterSource {
 public:
  CharacterSource(LineReader& lines, std::string first_line) : lines_(lines), line_(std::move(first_line)) {
    line_ += '\n';
  }

  bool done() const { return at_ == line_.size(); }
  char current() const { return line_[at_]; }
  void advance() {
    if (++at_ < line_.size()) return;
    at_ = 0;
    if (next_valid_line(lines_, line_)) {
      line_ += '\n';
    } else {
      line_.clear();
    }
  }

 private:
  LineReader& lines_;
  std::string line_;
  size_t at_ = 0;
};

class CharacterIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  CharacterIterator() = default;
  explicit CharacterIterator(CharacterSource& source) : source_(&source) {}

  char operator*() const { return source_->current(); }
  CharacterIterator& operator++() {
    source_->advance();
    return *this;
  }
  void operator++(int) { source_->advance(); }
  // Only ever asked whether it has reached the end, which is the default-constructed one.
  bool operator==(const CharacterIterator& other) const { return at_end() == other.at_end(); }
  bool operator!=(const CharacterIterator& other) const { return !(*this == other); }

 private:
  bool at_end() const { return source_ == nullptr || source_->done(); }

  CharacterSource* source_ = nullptr;
};

}  // namespace

std::vector<ListElement> list_elements(std::string_view text) {
  const Json list = Json::parse(text);
  std::vector<ListElement> elements;
  for (const Json& element : list) elements.push_back(list_element(element));
  return elements;
}

void read_json_rows(LineReader& lines, const TableOptions& options, TableBuilder& builder) {
  constexpr std::string_view kSpace = " \t\r";
  std::string line;
  bool any = false;
  while (!any && next_valid_line(lines, line)) any = line.find_first_not_of(kSpace) != std::string::npos;
  if (!any) throw user_error("[{}] expected JSON objects, got an empty file", lines.source());

  if (line[line.find_first_not_of(kSpace)] == '[') {
    CharacterSource source(lines, std::move(line));
    RowHandler handler(lines, true, options.objects_may_differ, builder);
    Json::sax_parse(CharacterIterator(source), CharacterIterator(), &handler);
  } else {
    RowHandler handler(lines, false, options.objects_may_differ, builder);
    do {
      if (line.find_first_not_of(kSpace) == std::string::npos) continue;
      Json::sax_parse(line, &handler);
    } while (next_valid_line(lines, line));
  }
  if (builder.file_rows() == 0)
    throw user_error("[{}] expected at least one object, got an empty array", lines.source());
}

}  // namespace shoehorn
