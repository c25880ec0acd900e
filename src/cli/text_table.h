// Columns of text that stand under each other.
#pragma once

#include <string>
#include <vector>

namespace shoehorn {

struct TextColumn {
  std::string title;
  bool is_number = false;  // aligned to the right
};

// A line for the titles and one a row, columns two spaces apart, each line indented by two spaces and without
// spaces at its end. Rows have as many cells as there are columns. Width counts characters, not bytes.
std::string format_table(const std::vector<TextColumn>& columns,
                         const std::vector<std::vector<std::string>>& rows);

}  // namespace shoehorn
