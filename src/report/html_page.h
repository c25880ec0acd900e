// Builds an HTML page in one file. It loads nothing, so it can be mailed and opened from a disk. It is light
// or dark as the reader's system is, with a button to change that. All texts are escaped.
//
//   HtmlPage page("Training run", "12 layers, 3 epochs");
//   page.add_heading("Loss");
//   page.add_figure(draw(chart));
//   page.add_table({.columns = {{"role"}, {"bytes", true}}, .rows = {{"weight", "86.67 MiB"}}});
//   write_text_atomic("report.html", page.html());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoehorn {

inline constexpr int64_t kPageRefreshSeconds = 5;

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
  // How far what the page shows has come. A page that `is_alive` loads itself anew every few seconds until it is written
  // without this; it says how long ago it was written.
  void add_status(std::string_view text, bool is_alive);
  // A row of tiles with a name and a value each: the main facts.
  void add_facts(const std::vector<std::pair<std::string, std::string>>& facts);
  // A table that is wider than the page scrolls within it; its first and last columns stay.
  void add_table(const HtmlTable& table);
  // What draw() of plot.h returns; it is inserted unchanged.
  void add_figure(std::string_view svg, std::string_view caption = {});
  // Text in a fixed-width font, with its line breaks, and further ones where a line is wider than the page.
  void add_preformatted(std::string_view text);

  std::string html() const;

 private:
  std::string title_;
  std::string body_;
  bool is_alive_ = false;
};

}  // namespace shoehorn
