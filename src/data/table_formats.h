// The parsers behind read_table, one per format. Each fills a table whose `source` is set, and throws as
// listed there.
#pragma once

#include "data/line_reader.h"
#include "data/table.h"

namespace shoehorn {

enum class Quoting : uint8_t { kQuoted, kLiteral };

void read_delimited(LineReader& lines, char delimiter, Quoting quoting, const TableOptions& options,
                    Table& table);

void read_json_rows(LineReader& lines, Table& table);

// Checks the column names and creates the columns. UserError for a duplicate name.
void set_columns(Table& table, std::vector<std::string> names, int64_t line);

}  // namespace shoehorn
