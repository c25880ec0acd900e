#include "report/html_page.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "report/html_style.h"

namespace shoehorn {

namespace {

constexpr size_t kMostColumnsThatWrap = 3;  // a table of more may scroll

// The escaped text of a cell. A flag in it is not broken behind its dashes.
std::string cell_text(std::string_view text) {
  std::string html;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    html += word.starts_with("--") ? fmt::format("<span class=\"flag\">{}</span>", escape_html(word))
                                   : escape_html(word);
    if (end < text.size()) html += ' ';
    begin = end + 1;
  }
  return html;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(character);
        const bool is_control = (byte < 0x20 && character != '\t' && character != '\n') || byte == 0x7F;
        escaped += is_control ? std::string("\xEF\xBF\xBD") : std::string(1, character);
      }
    }
  }
  return escaped;
}

HtmlPage::HtmlPage(std::string_view title, std::string_view subtitle) : title_(escape_html(title)) {
  body_ = fmt::format("<header><div><h1>{}</h1>", title_);
  if (!subtitle.empty()) body_ += fmt::format("<p class=\"subtitle\">{}</p>", escape_html(subtitle));
  body_ += "</div><button id=\"theme\" type=\"button\" hidden>Dark</button></header>\n";
}

void HtmlPage::add_heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", escape_html(text));
}

void HtmlPage::add_paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", escape_html(text));
}

void HtmlPage::add_status(std::string_view text, bool is_alive) {
  is_alive_ = is_alive;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string age = is_alive
                              ? fmt::format(" <span id=\"age\" data-written=\"{}\"></span>",
                                            std::chrono::duration_cast<std::chrono::seconds>(now).count())
                              : "";
  body_ += fmt::format("<p class=\"status{}\" role=\"status\">{}{}</p>\n", is_alive ? " alive" : "",
                       escape_html(text), age);
}

void HtmlPage::add_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
  }
  body_ += "</dl>\n";
}

void HtmlPage::add_table(const HtmlTable& table) {
  const auto cell = [](const char* tag, const TableColumn& column, const std::string& text) {
    return fmt::format("<{}{}>{}</{}>", tag, column.is_number ? " class=\"number\"" : "", cell_text(text),
                       tag);
  };
  // A scrolling table takes the keyboard's arrows.
  const bool is_wide = table.columns.size() > kMostColumnsThatWrap;
  body_ +=
      is_wide ? "<div class=\"scroll wide\" tabindex=\"0\"><table>\n" : "<div class=\"scroll\"><table>\n";
  if (!table.caption.empty()) body_ += fmt::format("<caption>{}</caption>\n", escape_html(table.caption));
  body_ += "<thead><tr>";
  for (const TableColumn& column : table.columns) body_ += cell("th", column, column.title);
  body_ += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    CHECK(row.size() == table.columns.size(), "a row of {} cells in a table of {} columns", row.size(),
          table.columns.size());
    body_ += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) body_ += cell("td", table.columns[i], row[i]);
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::add_figure(std::string_view svg, std::string_view caption) {
  body_ += fmt::format("<figure>\n{}", svg);
  if (!caption.empty()) body_ += fmt::format("<figcaption>{}</figcaption>\n", escape_html(caption));
  body_ += "</figure>\n";
}

void HtmlPage::add_preformatted(std::string_view text) {
  body_ += fmt::format("<pre>{}</pre>\n", escape_html(text));
}

std::string HtmlPage::html() const {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n{}<title>{}</title>\n"
      "<style>\n{}</style>\n</head>\n<body>\n{}<script>{}</script>\n</body>\n</html>\n",
      is_alive_ ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", kPageRefreshSeconds) : "",
      title_, page_style(), body_, page_script());
}

}  // namespace shoehorn
