// Builds an HTML page in one file. It loads nothing, so it can be mailed and opened from a disk. It is light
// or dark as the reader's system is, with a button to change that. All texts are escaped.
//
//   HtmlPage page("Training run", "12 layers, 3 epochs");
//   page.add_heading("Loss");
//   page.add_figure(draw(chart));
//   page.add_table({.columns = {{"role"}, {"bytes", true}}, .rows = {{"weight", "86.67 MiB"}}});
//   write_text_atomic("report.html", page.html());
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoehorn {

// Escapes & < > " ' for elements and quoted attributes; control characters other than tab and newline become
// U+FFFD.
std::string escape_html(std::string_view text);

struct TableColumn {
  std::string title;
  bool is_number = false;  // aligned to the right
};

struct HtmlTable {
  std::string caption = {};
  std::vector<TableColumn> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // each with one cell per column
};

class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title, std::string_view subtitle = {});

  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  // A row of tiles with a name and a value each: the main facts.
  void add_facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void add_table(const HtmlTable& table);
  // An <svg> element made by plot.h; it is inserted unchanged.
  void add_figure(std::string_view svg, std::string_view caption = {});
  // Text in a fixed-width font, with its line breaks.
  void add_preformatted(std::string_view text);

  std::string html() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace shoehorn
