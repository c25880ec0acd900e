// Comma- and tab-separated values (RFC 4180, with the exceptions that table.h lists).
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "data/table_formats.h"
#include "io/input_stream.h"

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
    is_quoted_ = quoted_ && line_.front() == '"';
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
  // Whether the first field is in quotes.
  bool is_quoted() const { return is_quoted_; }

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
  bool is_quoted_ = false;
  std::vector<std::string>
      fields_;  // only the first count_ belong to the record; the others keep their memory
  size_t count_ = 0;
  int64_t first_line_ = 0;
};

// The hint for a file whose columns are separated by something else than its name, or the format that was given, says.
std::string other_separator_hint(const std::string& source, char separator, bool has_format) {
  if (separator == '\t') return has_format ? "give the format tsv" : "name it .tsv";
  if (separator == ',') return has_format ? "give the format csv" : "name it .csv";
  return fmt::format(
      "convert it: python3 -c \"import pandas; pandas.read_csv('{}', sep='{}').to_csv('{}', index=False)\"",
      source, separator, without_compression(source).replace_extension(".commas.csv").string());
}

// A header that is one name with the separator of another format in it, above a row that has it too.
void check_separator(const std::string& source, int64_t line, char delimiter, const std::string& name,
                     const DelimitedReader& first_row, bool has_format) {
  for (const char separator : {',', ';', '\t', '|'}) {
    if (separator == delimiter || name.find(separator) == std::string::npos) continue;
    bool is_in_row = false;
    for (size_t i = 0; i < first_row.count(); ++i)
      is_in_row |= first_row.field(i).find(separator) != std::string::npos;
    if (!is_in_row) continue;
    const bool is_csv = delimiter == ',';
    throw user_error("[{}:{}] expected {} between columns, as {}, got {}: '{}'; {}{}", source, line,
                     is_csv ? "commas" : "tabs",
                     !has_format ? "in its name"
                     : is_csv    ? "the format csv has them"
                                 : "the format tsv has them",
                     separator == '\t' ? "tabs" : fmt::format("'{}'", separator), shorten(name, 100),
                     other_separator_hint(source, separator, has_format),
                     is_csv ? ", or put the name of a single column in double quotes" : "");
  }
}

}  // namespace

void read_delimited(LineReader& lines, char delimiter, Quoting quoting, const TableOptions& options,
                    TableBuilder& builder) {
  DelimitedReader reader(lines, delimiter, quoting, options.max_record_bytes);
  if (!reader.next())
    throw user_error("[{}] expected a header line and rows, got an empty file", lines.source());
  const bool is_quoted = reader.is_quoted();
  const int64_t header_line = reader.first_line();
  std::vector<std::string> names;
  for (size_t i = 0; i < reader.count(); ++i) {
    names.push_back(reader.field(i).empty() ? fmt::format("Unnamed: {}", i) : reader.field(i));
  }
  builder.set_columns(names, header_line);

  while (reader.next()) {
    if (builder.file_rows() == 0 && names.size() == 1 && !is_quoted)
      check_separator(lines.source(), header_line, delimiter, names[0], reader, options.format.has_value());
    if (reader.count() != names.size()) {
      throw user_error("[{}:{}] expected {} fields as in the header, got {}; {}", lines.source(),
                       reader.first_line(), names.size(), reader.count(),
                       quoting == Quoting::kQuoted ? "put a field that holds commas in double quotes"
                                                   : "a tab inside a field is not possible in this format");
    }
    for (size_t i = 0; i < names.size(); ++i)
      builder.append(i, reader.field(i), classify_field(reader.field(i)));
    builder.end_row(reader.first_line());
  }
  if (builder.file_rows() == 0) {
    throw user_error("[{}] expected rows after the header, got none; is the first line a header?",
                     lines.source());
  }
}

}  // namespace shoehorn
