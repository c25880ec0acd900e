// The parsers behind read_table, one per format. Each adds the rows of a file, from its columns on, and throws as listed
// there.
#pragma once

#include "data/line_reader.h"
#include "data/table.h"
#include "data/table_builder.h"

namespace shoehorn {

enum class Quoting : uint8_t { kQuoted, kLiteral };

void read_delimited(LineReader& lines, char delimiter, Quoting quoting, const TableOptions& options,
                    TableBuilder& builder);

// One column, `text`; an empty line is a missing text.
void read_line_rows(LineReader& lines, TableBuilder& builder);

void read_json_rows(LineReader& lines, const TableOptions& options, TableBuilder& builder);

}  // namespace shoehorn
