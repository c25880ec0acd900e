#include "data/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "data/data_format.h"
#include "data/table_formats.h"
#include "io/input_stream.h"

namespace shoehorn {
namespace {

template <typename T>
bool parses_as(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string_view Column::text(int64_t row) const {
  const auto i = static_cast<size_t>(row);
  const int64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(bytes_.data(), bytes_.size())
      .substr(static_cast<size_t>(begin), static_cast<size_t>(ends_[i] - begin));
}

void Column::append(std::string_view text, CellKind kind) {
  bytes_.append(text);
  ends_.push_back(static_cast<int64_t>(bytes_.size()));
  kinds_.push_back(kind);
}

void Column::truncate(int64_t rows) {
  CHECK(rows <= size(), "{} rows of {}", rows, size());
  ends_.resize(static_cast<size_t>(rows));
  kinds_.resize(static_cast<size_t>(rows));
  bytes_.resize(static_cast<size_t>(rows == 0 ? 0 : ends_.back()));
}

int64_t Column::memory_bytes() const {
  return static_cast<int64_t>(bytes_.capacity() + ends_.capacity() * sizeof(int64_t) +
                              kinds_.capacity() * sizeof(CellKind));
}

int64_t Table::find_column(std::string_view name) const {
  const auto found = std::find(column_names.begin(), column_names.end(), name);
  return found == column_names.end() ? -1 : found - column_names.begin();
}

void Table::clear_rows() {
  for (Column& column : columns) column.truncate(0);
  row_lines.clear();
  if (!files.empty()) files = {File{std::move(files.back().name)}};
}

std::string Table::place(int64_t row) const {
  const auto behind = std::ranges::upper_bound(files, row, {}, &File::first_row);
  return fmt::format("{}:{}", behind == files.begin() ? source : std::prev(behind)->name,
                     row_lines[static_cast<size_t>(row)]);
}

int64_t Table::text_bytes() const {
  int64_t bytes = 0;
  for (const Column& column : columns) bytes += column.text_bytes();
  return bytes;
}

int64_t Table::memory_bytes() const {
  auto bytes = static_cast<int64_t>(row_lines.capacity() * sizeof(int64_t));
  for (const Column& column : columns) bytes += column.memory_bytes();
  return bytes;
}

CellKind classify_field(std::string_view text) {
  if (text.empty()) return CellKind::kNull;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  // Cheaper than parsing every word: a number begins with a digit, a sign or a point ("inf" and "nan" are
  // words here).
  if (text.empty() || text.find_first_of("0123456789-.") != 0) return CellKind::kString;
  int64_t integer = 0;
  if (parses_as(text, integer)) return CellKind::kInteger;
  double real = 0;
  return parses_as(text, real) && std::isfinite(real) ? CellKind::kReal : CellKind::kString;
}

namespace {

// The first text of standard input would be taken for the name of a column.
void check_is_no_plain_text(const LineReader& lines) {
  std::string_view line = lines.beginning().substr(0, lines.beginning().find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool is_name = line.find(' ') == std::string_view::npos;
  if (is_name || line.find_first_of(",\t{[\"") != std::string_view::npos) return;
  throw user_error(
      "[{}] expected a table, whose first line names its columns, or JSON lines, got '{}'; --test_file_format txt reads a "
      "text a line, csv a table of that one column",
      lines.source(), shorten(std::string(line), 60));
}

DataFormat format_of(const std::filesystem::path& path, const TableOptions& options,
                     const LineReader& lines) {
  if (options.format) return *options.format;
  if (!is_standard_input(path)) return data_format_of(path);
  check_is_no_plain_text(lines);
  return table_format_of_bytes(lines.beginning());
}

// In the first line that has something: a table's header.
bool has_tab_in_first_line(const LineReader& lines) {
  std::string_view beginning = lines.beginning();
  beginning.remove_prefix(std::min(beginning.find_first_not_of("\r\n"), beginning.size()));
  return beginning.substr(0, beginning.find('\n')).find('\t') != std::string_view::npos;
}

void read_file(const std::filesystem::path& path, const TableOptions& options, TableBuilder& builder) {
  const bool says_nothing = options.format || is_standard_input(path);
  if (!says_nothing) data_format_of(path);  // rather than that it is no text
  LineReader lines(path, options.max_record_bytes);
  builder.begin_file(lines.source());
  switch (format_of(path, options, lines)) {
    case DataFormat::kCommas:
      read_delimited(lines, ',', Quoting::kQuoted, options, builder);
      break;
    case DataFormat::kText:
      if (options.format || !has_tab_in_first_line(lines)) {
        read_line_rows(lines, builder);
        break;
      }
      [[fallthrough]];
    case DataFormat::kTabs:
      read_delimited(lines, '\t', Quoting::kLiteral, options, builder);
      break;
    case DataFormat::kObjects:
      builder.types_are_stated();
      read_json_rows(lines, options, builder);
      break;
  }
  builder.end_file(lines.invalid_utf8());
}

Table read_files(const DataFiles& files, const TableOptions& options, TableBuilder& builder) {
  for (const std::filesystem::path& path : files.paths()) read_file(path, options, builder);
  return builder.finish();
}

}  // namespace

Table read_table(const DataFiles& files, const TableOptions& options,
                 const std::function<void(const Table& so_far)>& on_row) {
  TableBuilder whole(files.name(), on_row);
  return read_files(files, options, whole);
}

int64_t read_table_in_pieces(const DataFiles& files, const TableOptions& options, PieceLimits limits,
                             const std::function<void(const Table& piece)>& take) {
  TableBuilder pieces(files.name(), limits, take);
  return read_files(files, options, pieces).invalid_utf8;
}

}  // namespace shoehorn
