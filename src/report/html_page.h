// A page of HTML in one file: nothing is loaded from anywhere, so it can be mailed and opened from a disk.
// Light or dark as the reader's system says, with a button to change it. Every text given is escaped.
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

// & < > " ' as entities, so that a text can stand in an element or in a quoted attribute; control characters
// other than tab and newline become U+FFFD.
std::string escape_html(std::string_view text);

struct TableColumn {
  std::string title;
  bool is_number = false;  // aligned to the right
};

struct HtmlTable {
  std::string caption = {};
  std::vector<TableColumn> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // as many cells as there are columns
};

class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title, std::string_view subtitle = {});

  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  // A row of tiles, a name and a value each, for what is read first.
  void add_facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void add_table(const HtmlTable& table);
  // An <svg> of plot.h, which is taken as it is.
  void add_figure(std::string_view svg, std::string_view caption = {});
  // Lines in a fixed-width face.
  void add_preformatted(std::string_view text);

  std::string html() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace shoehorn
