// Comma-separated values (data/table.h).
#include "fuzz/reader.h"
#include "fuzz/table_properties.h"

namespace shoehorn::fuzz {
namespace {

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

std::string csv_text(const Table& table) {
  std::string text;
  for (const std::string& name : table.column_names) text += in_quotes(name) + ',';
  text.back() = '\n';
  for (int64_t row = 0; row < table.rows(); ++row) {
    for (const Column& column : table.columns) text += in_quotes(column.text(row)) + ',';
    text.back() = '\n';
  }
  return text;
}

void fuzz_csv(std::string_view input) {
  read_table_of(".csv", input, csv_text);
}

const Registration kCsvReader("csv", fuzz_csv);

}  // namespace
}  // namespace shoehorn::fuzz
