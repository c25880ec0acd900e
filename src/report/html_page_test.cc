#include "report/html_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "base/error.h"
#include "report/html_style.h"

namespace shoehorn {
namespace {

HtmlPage sample_page() {
  HtmlPage page("A run <1>", "of \"bert\" & co");
  page.add_heading("Memory");
  page.add_paragraph("a < b");
  page.add_facts({{"samples/s", "31.5"}});
  page.add_table(
      {.caption = "by role", .columns = {{"role"}, {"bytes", true}}, .rows = {{"<weight>", "12"}}});
  page.add_figure("<svg></svg>", "what it & shows");
  page.add_preformatted("--flag '<x>'");
  return page;
}

TEST(HtmlPageTest, HasItsPartsInOrder) {
  const std::string html = sample_page().html();
  size_t at = 0;
  for (const char* part :
       {"<!doctype html>", "<meta charset=\"utf-8\">", "<title>A run &lt;1&gt;</title>", "<style>", "<body>",
        "<h1>A run &lt;1&gt;</h1>", "of &quot;bert&quot; &amp; co", "<h2>Memory</h2>", "<p>a &lt; b</p>",
        "<dt>samples/s</dt><dd>31.5</dd>", "<caption>by role</caption>", "<th class=\"number\">bytes</th>",
        "<td>&lt;weight&gt;</td><td class=\"number\">12</td>", "<svg></svg>", "what it &amp; shows",
        "<pre>--flag &#39;&lt;x&gt;&#39;</pre>", "<script>", "</html>"}) {
    const size_t found = html.find(part, at);
    ASSERT_NE(found, std::string::npos) << part;
    at = found;
  }
}

// Names of arguments are not broken within, where there is room.
TEST(HtmlPageTest, FirstColumnsBreakBetweenWords) {
  EXPECT_NE(
      page_style().find("@media(min-width:600px){td:first-child{overflow-wrap:break-word;max-width:60vw}}"),
      std::string::npos);
}

// Who copies a command sees all of it.
TEST(HtmlPageTest, NoTextIsWiderThanThePage) {
  EXPECT_NE(page_style().find("white-space:pre-wrap;overflow-wrap:anywhere"), std::string::npos);
}

TEST(HtmlPageTest, LoadsNothing) {
  const std::string html = sample_page().html();
  for (const char* outside : {"src=", "href=", "url(", "@import", "http:", "https:", "fetch("})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
}

TEST(HtmlPageTest, FollowsTheSystemAndTheButton) {
  const std::string html = sample_page().html();
  EXPECT_NE(html.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(html.find("data-theme=dark"), std::string::npos);
  EXPECT_NE(html.find("id=\"theme\""), std::string::npos);
}

TEST(HtmlPageTest, OnlyAPageThatIsAliveLoadsItselfAnew) {
  HtmlPage alive("x");
  alive.add_status("running, step 4 of <9>", true);
  EXPECT_NE(alive.html().find("http-equiv=\"refresh\" content=\"5\""), std::string::npos);
  EXPECT_NE(alive.html().find("running, step 4 of &lt;9&gt;"), std::string::npos);
  HtmlPage over("x");
  over.add_status("ended", false);
  EXPECT_EQ(over.html().find("http-equiv"), std::string::npos);
  EXPECT_EQ(over.html().find("data-written"), std::string::npos);
}

TEST(HtmlPageTest, ATableOfManyColumnsKeepsItsEndsInSight) {
  HtmlPage page("x");
  page.add_table({.columns = {{"a"}, {"b"}, {"c"}}});
  EXPECT_EQ(page.html().find("class=\"scroll wide\""), std::string::npos);
  page.add_table({.columns = {{"a"}, {"b"}, {"c"}, {"d"}}});
  EXPECT_NE(page.html().find("class=\"scroll wide\" tabindex=\"0\""), std::string::npos);
  EXPECT_NE(page.html().find(".wide td:last-child{position:sticky"), std::string::npos);
}

TEST(HtmlPageTest, AFlagInATableIsNotBrokenBehindItsDashes) {
  HtmlPage page("x");
  page.add_table({.columns = {{"a"}}, .rows = {{"with --fp16  --optim <sgd>"}}});
  EXPECT_NE(
      page.html().find("<td>with <span class=\"flag\">--fp16</span>  <span class=\"flag\">--optim</span> "
                       "&lt;sgd&gt;</td>"),
      std::string::npos);
}

TEST(HtmlPageTest, OneDrawingOfAPlotIsShownForEachWidthOfTheWindow) {
  const std::string style = page_style();
  EXPECT_NE(style.find(".plot{display:none"), std::string::npos);
  for (const double width : kPlotWidths)
    EXPECT_NE(style.find(fmt::format(".w{}{{display:block", width)), std::string::npos) << width;
}

TEST(HtmlPageTest, EscapesControlCharacters) {
  EXPECT_EQ(escape_html(std::string("a\0b\x1b\x7f", 5)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("a\tb\n\xC3\xA9"), "a\tb\n\xC3\xA9");
}

TEST(HtmlPageTest, ARowOfAnotherLengthIsAnError) {
  HtmlPage page("x");
  EXPECT_THROW(page.add_table({.columns = {{"a"}, {"b"}}, .rows = {{"1"}}}), InternalError);
}

// Contrast of two colours #rrggbb, 1 to 21 (WCAG 2.1).
double contrast(std::string_view a, std::string_view b) {
  const auto luminance = [](std::string_view color) {
    const auto channel = [&](size_t at) {
      const double value = std::stoi(std::string(color.substr(at, 2)), nullptr, 16) / 255.0;
      return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  };
  const double high = std::max(luminance(a), luminance(b));
  const double low = std::min(luminance(a), luminance(b));
  return (high + 0.05) / (low + 0.05);
}

TEST(PagePaletteTest, ContrastsAreThoseOfTheGuidelines) {
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-9);
  for (const PagePalette* palette : {&kLightPalette, &kDarkPalette}) {
    for (const std::string_view behind : {palette->surface, palette->panel}) {
      EXPECT_GE(contrast(palette->ink, behind), 4.5);
      EXPECT_GE(contrast(palette->muted, behind), 4.5);
      for (const std::string_view color : palette->series) EXPECT_GE(contrast(color, behind), 3) << color;
    }
  }
}

}  // namespace
}  // namespace shoehorn
