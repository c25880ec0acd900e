// Comma- and tab-separated values (RFC 4180, with the exceptions that table.h lists).
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/table_formats.h"

namespace shoehorn {
namespace {

class DelimitedReader {
 public:
  DelimitedReader(LineReader& lines, char delimiter, Quoting quoting, int64_t max_record_bytes)
      : lines_(lines),
        delimiter_(delimiter),
        quoted_(quoting == Quoting::kQuoted),
        max_record_bytes_(max_record_bytes) {}

  // Reads the next record that is not an empty line. False at the end of the file.
  bool next() {
    do {
      if (!next_line()) return false;
    } while (line_.empty());
    first_line_ = lines_.line_number();
    count_ = 0;
    size_t at = 0;
    for (;;) {
      at = quoted_ && at < line_.size() && line_[at] == '"' ? quoted_field(at + 1) : plain_field(at);
      if (at >= line_.size()) return true;
      ++at;  // the delimiter
    }
  }

  size_t count() const { return count_; }
  const std::string& field(size_t i) const { return fields_[i]; }
  int64_t first_line() const { return first_line_; }

 private:
  bool next_line() {
    if (!lines_.next(line_)) return false;
    had_return_ = line_.ends_with('\r');
    if (had_return_) line_.pop_back();
    return true;
  }

  std::string& new_field() {
    if (count_ == fields_.size()) fields_.emplace_back();
    std::string& field = fields_[count_++];
    field.clear();
    return field;
  }

  // Both take the position at which the field's text begins, and return the position at which it ends: a
  // delimiter or the end of the line.
  size_t plain_field(size_t at) {
    const size_t end = std::min(line_.find(delimiter_, at), line_.size());
    new_field().append(line_, at, end - at);
    return end;
  }

  size_t quoted_field(size_t at) {
    std::string& field = new_field();
    const int64_t opened = lines_.line_number();
    for (;;) {
      const size_t quote = line_.find('"', at);
      if (quote == std::string::npos) {
        field.append(line_, at);
        field += had_return_ ? "\r\n" : "\n";
        if (static_cast<int64_t>(field.size()) > max_record_bytes_)
          unclosed(opened, "a field over the size limit");
        if (!next_line()) unclosed(opened, "the end of the file");
        at = 0;
        continue;
      }
      field.append(line_, at, quote - at);
      at = quote + 1;
      if (at == line_.size() || line_[at] == delimiter_) return at;
      if (line_[at] != '"') {
        throw user_error(
            "[{}:{}] expected a delimiter or the end of the line after a closing quote, got '{}' (byte {} of "
            "the line); double a quote that belongs to the text",
            lines_.source(), lines_.line_number(), line_[at], at + 1);
      }
      field += '"';
      ++at;
    }
  }

  [[noreturn]] void unclosed(int64_t opened, std::string_view found) const {
    throw user_error(
        "[{}:{}] expected a closing quote for the field that begins here, got {}; double a quote that "
        "belongs to the text, or name the file .tsv if its quotes are plain text",
        lines_.source(), opened, found);
  }

  LineReader& lines_;
  char delimiter_;
  bool quoted_;
  int64_t max_record_bytes_;
  std::string line_;
  bool had_return_ = false;
  std::vector<std::string>
      fields_;  // only the first count_ belong to the record; the others keep their memory
  size_t count_ = 0;
  int64_t first_line_ = 0;
};

}  // namespace

void read_delimited(LineReader& lines, char delimiter, Quoting quoting, const TableOptions& options,
                    RowPieces& pieces, Table& table) {
  DelimitedReader reader(lines, delimiter, quoting, options.max_record_bytes);
  if (!reader.next())
    throw user_error("[{}] expected a header line and rows, got an empty file", table.source);
  std::vector<std::string> names;
  for (size_t i = 0; i < reader.count(); ++i) {
    names.push_back(reader.field(i).empty() ? fmt::format("Unnamed: {}", i) : reader.field(i));
  }
  set_columns(table, std::move(names), reader.first_line());

  while (reader.next()) {
    if (reader.count() != table.columns.size()) {
      throw user_error("[{}:{}] expected {} fields as in the header, got {}; {}", table.source,
                       reader.first_line(), table.columns.size(), reader.count(),
                       quoting == Quoting::kQuoted ? "put a field that holds commas in double quotes"
                                                   : "a tab inside a field is not possible in this format");
    }
    for (size_t i = 0; i < table.columns.size(); ++i) {
      table.columns[i].append(reader.field(i), classify_field(reader.field(i)));
    }
    table.row_lines.push_back(reader.first_line());
    pieces.row_added(table);
  }
  if (pieces.total() == 0) {
    throw user_error("[{}] expected rows after the header, got none; is the first line a header?",
                     table.source);
  }
}

}  // namespace shoehorn
