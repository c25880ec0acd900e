// Tab-separated values, .tsv and .txt (data/table.h).
#include "fuzz/reader.h"
#include "fuzz/table_properties.h"

namespace shoehorn::fuzz {
namespace {

// With a byte order mark and CRLF: a first name may begin with a second mark, a cell may end in CR.
std::string tsv_text(const Table& table) {
  std::string text = "\xef\xbb\xbf";
  const auto end_line = [&] {
    text.pop_back();
    text += "\r\n";
  };
  for (const std::string& name : table.column_names) text += name + '\t';
  end_line();
  for (int64_t row = 0; row < table.rows(); ++row) {
    for (const Column& column : table.columns) (text += column.text(row)) += '\t';
    end_line();
  }
  return text;
}

void fuzz_tsv(std::string_view input) {
  read_table_of(".tsv", input, tsv_text);
}

const Registration kTsvReader("tsv", fuzz_tsv);

}  // namespace
}  // namespace shoehorn::fuzz
