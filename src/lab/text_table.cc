#include "lab/text_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace shoehorn {

std::string format_table(const std::vector<TextColumn>& columns,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns.size(); ++c) {
    size_t width = static_cast<size_t>(count_code_points(columns[c].title));
    for (const auto& row : rows) {
      CHECK(row.size() == columns.size(), "a row has {} cells for {} columns", row.size(), columns.size());
      width = std::max(width, static_cast<size_t>(count_code_points(row[c])));
    }
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(widths[c] - static_cast<size_t>(count_code_points(cell)), ' ');
      line += "  " + (columns[c].is_number ? padding + cell : cell + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line([&](size_t c) -> const std::string& { return columns[c].title; });
  for (const auto& row : rows) add_line([&](size_t c) -> const std::string& { return row[c]; });
  return text;
}

std::string format_table(const TextTable& table) {
  return format_table(table.columns, table.rows);
}

HtmlTable html_table(const TextTable& table) {
  HtmlTable html;
  for (const TextColumn& column : table.columns) html.columns.push_back({column.title, column.is_number});
  html.rows = table.rows;
  return html;
}

}  // namespace shoehorn
