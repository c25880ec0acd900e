// A text a line.
#include <string>

#include "base/error.h"
#include "data/table_formats.h"

namespace shoehorn {

void read_line_rows(LineReader& lines, TableBuilder& builder) {
  builder.set_columns({"text"}, 1);
  std::string line;
  while (lines.next(line)) {
    if (line.ends_with('\r')) line.pop_back();
    builder.append(0, line, line.empty() ? CellKind::kNull : CellKind::kString);
    builder.end_row(lines.line_number());
  }
  if (builder.file_rows() == 0)
    throw user_error("[{}] expected lines of text, got an empty file", lines.source());
}

}  // namespace shoehorn
