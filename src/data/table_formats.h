// The formats behind read_table. Each fills a table whose `source` is set; what they throw is listed there.
#pragma once

#include "data/line_reader.h"
#include "data/table.h"

namespace shoehorn {

enum class Quoting : uint8_t { kQuoted, kLiteral };

void read_delimited(LineReader& lines, char delimiter, Quoting quoting, const TableOptions& options,
                    Table& table);

void read_json_rows(LineReader& lines, Table& table);

// Checks names against each other and makes the columns. UserError: a name twice.
void set_columns(Table& table, std::vector<std::string> names, int64_t line);

}  // namespace shoehorn
