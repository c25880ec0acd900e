// Columns of text that stand under each other.
#pragma once

#include <string>
#include <vector>

#include "report/html_page.h"

namespace shoehorn {

struct TextColumn {
  std::string title;
  bool is_number = false;  // aligned to the right
};

// A line for the titles and one a row, columns two spaces apart, each line indented by two spaces and without
// spaces at its end. Rows have as many cells as there are columns. Width counts characters, not bytes.
std::string format_table(const std::vector<TextColumn>& columns,
                         const std::vector<std::vector<std::string>>& rows);

// A table for whichever way it is shown: as text, or on a page.
struct TextTable {
  std::vector<TextColumn> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};
std::string format_table(const TextTable& table);
HtmlTable html_table(const TextTable& table);

}  // namespace shoehorn
