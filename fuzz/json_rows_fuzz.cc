// JSON objects, one a line or in one array (data/table.h).
#include <nlohmann/json.hpp>

#include "fuzz/reader.h"
#include "fuzz/table_properties.h"

namespace shoehorn::fuzz {
namespace {

std::string json_rows_text(const Table& table) {
  std::string text;
  for (int64_t row = 0; row < table.rows(); ++row) {
    nlohmann::ordered_json object;
    for (size_t c = 0; c < table.columns.size(); ++c)
      object[table.column_names[c]] = table.columns[c].text(row);
    text += object.dump() + '\n';
  }
  return text;
}

void fuzz_json_rows(std::string_view input) {
  read_table_of(".jsonl", input, json_rows_text);
}

const Registration kJsonRowsReader("json_rows", fuzz_json_rows);

}  // namespace
}  // namespace shoehorn::fuzz
