// Tables as text with aligned columns.
#pragma once

#include <string>
#include <vector>

#include "report/html_page.h"

namespace shoehorn {

// In the cell of a value that there is not.
inline constexpr const char* kNothing = "-";

struct TextColumn {
  std::string title;
  bool is_number = false;  // aligned to the right
};

// A line of titles, then one per row. Columns are two spaces apart; lines are indented by two spaces and have
// no trailing spaces. Every row has one cell per column. Widths count characters, not bytes.
std::string format_table(const std::vector<TextColumn>& columns,
                         const std::vector<std::vector<std::string>>& rows);

// A table that can be shown as text or on a page.
struct TextTable {
  std::vector<TextColumn> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};
std::string format_table(const TextTable& table);
HtmlTable html_table(const TextTable& table);

}  // namespace shoehorn
