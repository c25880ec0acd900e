#include "report/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <regex>

#include "base/error.h"
#include "report/framed_chart.h"
#include "report/text_layout.h"

namespace shoehorn {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kWide = kPlotWidths.back();

int64_t count_of(const std::string& text, const std::string& piece) {
  int64_t count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

// Every element that is opened is closed, in order.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    if (svg[end - 1] == '/') continue;
    const bool closes = svg[at + 1] == '/';
    const size_t begin = at + (closes ? 2 : 1);
    const std::string name = svg.substr(begin, svg.find_first_of(" >", begin) - begin);
    if (!closes) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("inf\""), std::string::npos) << svg;
}

struct DrawnText {
  std::string content, css_class;
  Box box;
};

std::vector<DrawnText> texts_of(const std::string& svg) {
  const std::regex text(
      "<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" text-anchor=\"([a-z]+)\" class=\"([a-z]+)\">([^<]*)<");
  std::vector<DrawnText> texts;
  for (std::sregex_iterator it(svg.begin(), svg.end(), text), end; it != end; ++it) {
    const std::string content = (*it)[5];
    const double size = (*it)[4] == "title" ? kTitleSize : kFontSize;
    const double width = text_width(content, size);
    double left = std::stod((*it)[1]);
    if ((*it)[3] == "middle") left -= width / 2;
    if ((*it)[3] == "end") left -= width;
    Box box = box_of({content}, left, std::stod((*it)[2]));
    box.right = left + width;
    texts.push_back({content, (*it)[4], box});
  }
  return texts;
}

std::string all_text(const std::string& svg) {
  std::string all;
  for (const DrawnText& text : texts_of(svg)) all += text.content + " ";
  return all;
}

// Each text is within the element, by the width that is reckoned for it; none meets another, or the line of a mark.
void expect_texts_apart(const std::string& svg) {
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
  const std::vector<DrawnText> texts = texts_of(svg);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Box& box = texts[i].box;
    EXPECT_GE(box.left, -0.1) << texts[i].content;
    EXPECT_LE(box.right, std::stod(size[1]) + 0.1) << texts[i].content;
    EXPECT_LE(box.bottom, std::stod(size[2]) + 0.1) << texts[i].content;
    for (size_t k = 0; k < i; ++k)
      EXPECT_FALSE(box.meets(texts[k].box)) << texts[i].content << " and " << texts[k].content << "\n" << svg;
  }
  const std::regex mark(
      "<line x1=\"([-0-9.]+)\" y1=\"([-0-9.]+)\" x2=\"[-0-9.]+\" y2=\"([-0-9.]+)\" class=\"mark\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), mark), end; it != end; ++it) {
    const double x = std::stod((*it)[1]);
    for (const DrawnText& text : texts) {
      EXPECT_FALSE(text.box.meets({x - 0.5, std::stod((*it)[2]), x + 0.5, std::stod((*it)[3])}))
          << "a mark's line crosses " << text.content;
    }
  }
}

// The drawing for each width is as it should be; returns the last.
template <typename Chart>
std::string draw_all(const Chart& chart) {
  std::string svg;
  for (const double width : kPlotWidths) {
    SCOPED_TRACE(width);
    svg = draw(chart, width);
    expect_well_formed(svg);
    expect_texts_apart(svg);
  }
  EXPECT_EQ(count_of(draw(chart), "<svg"), std::ssize(kPlotWidths));
  return svg;
}

LineChart chart_of(std::vector<PlotPoint> points) {
  LineChart chart{.title = "Loss", .x = {"step", Unit::kCount}, .y = {"loss"}};
  chart.series.push_back({"train", std::move(points)});
  return chart;
}

TEST(LineChartTest, DrawsAPathADotAPointAndAxes) {
  const std::string svg = draw_all(chart_of({{1, 2.5}, {2, 1.5}, {3, 1.25}}));
  EXPECT_EQ(count_of(svg, "class=\"line c0\""), 1);
  EXPECT_EQ(count_of(svg, "<circle"), 0) << "points are seen only where they are asked for";
  EXPECT_NE(svg.find("<title>step 2\ntrain: 1.5</title>"), std::string::npos);
  EXPECT_NE(svg.find(">loss</text>"), std::string::npos);
  EXPECT_EQ(count_of(svg, "class=\"key"), 0) << "one series needs no legend";
}

TEST(LineChartTest, BreaksAtWhatIsNotANumber) {
  const std::string svg = draw_all(chart_of({{1, 1}, {2, 2}, {3, kNan}, {4, 2}, {5, 1}}));
  const std::string path = svg.substr(svg.find("<path d=\""));
  EXPECT_EQ(count_of(path.substr(0, path.find("class")), "M"), 2);
}

TEST(LineChartTest, APointAloneIsADot) {
  for (const auto& points : {std::vector<PlotPoint>{{7, 3}}, std::vector<PlotPoint>{{1, kNan}, {7, 3}}}) {
    const std::string svg = draw_all(chart_of(points));
    EXPECT_EQ(count_of(svg, "class=\"dot c0\""), 1);
  }
}

TEST(LineChartTest, WithoutValuesSaysSo) {
  for (const auto& points : {std::vector<PlotPoint>{}, std::vector<PlotPoint>{{1, kNan}}}) {
    const std::string svg = draw_all(chart_of(points));
    EXPECT_NE(svg.find(">no values</text>"), std::string::npos);
  }
  EXPECT_NE(draw(LineChart{}).find("no values"), std::string::npos);
}

TEST(LineChartTest, ALogarithmicAxisLeavesOutZero) {
  LineChart chart = chart_of({{1, 0}, {2, 0.01}, {3, 10}});
  chart.y.logarithmic = true;
  const std::string svg = draw_all(chart);
  EXPECT_NE(svg.find(">0.01</text>"), std::string::npos);
  EXPECT_EQ(count_of(svg, "class=\"band\""), 2);
}

TEST(LineChartTest, ManyPointsKeepTheirExtremes) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 100000; ++i)
    points.push_back({static_cast<double>(i), i == 54321 ? 9.0 : (i % 7) / 7.0});
  LineChart chart = chart_of(points);
  chart.y.title.clear();
  const std::string svg = draw_all(chart);
  EXPECT_LT(svg.size(), 100000U);
  const svg::Frame frame{kWide, 0, 34, 1, 254, {}, make_ticks(0, 9, {}, 7)};
  EXPECT_NE(svg.find(" " + svg::number(frame.y_at(9)) + "L"), std::string::npos);
}

TEST(LineChartTest, SeriesBeyondTheColoursHaveAnotherDash) {
  LineChart chart;
  for (int64_t i = 0; i < 2 * kSeriesColors; ++i)
    chart.series.push_back({fmt::format("s{}", i), {{0, 0}, {1, static_cast<double>(i)}}});
  const std::string svg = draw_all(chart);
  EXPECT_EQ(count_of(svg, "class=\"line c3\""), 2);
  EXPECT_EQ(count_of(svg, "stroke-dasharray"), kSeriesColors);
  EXPECT_EQ(count_of(svg, "class=\"key"), 2 * kSeriesColors);
}

TEST(PlotTest, TextsAreEscaped) {
  LineChart lines = chart_of({{1, 1}});
  lines.title = lines.series[0].name = lines.x.title = lines.y.title = "<script>&\"'";
  lines.marks = {{1, "<b>"}};
  const AreaChart area{.title = "<b>", .x = {0, 1}, .layers = {{"<i>", {1, 2}}, {"&", {1, 1}}}};
  const BarChart bars{.title = "<b>", .categories = {"<td>"}, .series = {{"<i>", {1}}, {"&", {2}}}};
  for (const std::string& svg : {draw(lines), draw(area), draw(bars)}) {
    expect_well_formed(svg);
    for (const char* raw : {"<script", "<b>", "<i>", "<td>", "&<"})
      EXPECT_EQ(svg.find(raw), std::string::npos) << raw;
  }
}

TEST(LineChartTest, PointsThatAreAskedForAreDots) {
  LineChart chart = chart_of({{1, 1}, {2, 2}, {3, 1}});
  chart.series[0].has_dots = true;
  EXPECT_EQ(count_of(draw_all(chart), "class=\"dot c0\""), 3);
  for (int i = 0; i < 5000; ++i) chart.series[0].points.push_back({4.0 + i, 1});
  EXPECT_LT(count_of(draw_all(chart), "class=\"dot c0\""), 130) << "dots do not become a bar";
}

TEST(LineChartTest, TheSeriesAtAnXAreToldTogether) {
  LineChart chart = chart_of({{1, 2.5}, {2, 1.5}});
  chart.series.push_back({"evaluation", {{2, 1.75}}});
  const std::string svg = draw_all(chart);
  EXPECT_NE(svg.find("<title>step 1\ntrain: 2.5</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>step 2\ntrain: 1.5\nevaluation: 1.75</title>"), std::string::npos);
}

TEST(PlotTest, MarksStandAtTheirPlacesAndTheirTextsApart) {
  LineChart chart = chart_of({{0, 1}, {10, 2}});
  for (const std::vector<double>& at : std::vector<std::vector<double>>{
           {0, 10}, {5}, {4, 5}, {5, 5.1}, {0, 1, 2}, {8, 9, 10}, {0, 5, 10}, {9.9, 10}, {0, 0.1, 9.9, 10}}) {
    chart.marks.clear();
    for (const double x : at)
      chart.marks.push_back({x, fmt::format("a rather long text for the mark at {}", x)});
    const std::string svg = draw_all(chart);
    EXPECT_EQ(count_of(svg, "class=\"mark\""), std::ssize(at));
  }
}

// A phone is narrower than the text, which is not cut.
TEST(PlotTest, LongTextsAreBrokenIntoLines) {
  LineChart chart = chart_of({{0, 1}, {10, 2}});
  chart.title =
      "The peak of the whole process over the steps of a run with a long name, which is told in full";
  chart.marks = {
      {4, "peak 379.98 MiB: product of encoder layer 5, attention, in the backward of micro-batch 3"}};
  const std::string narrow = draw(chart, kPlotWidths.front());
  EXPECT_NE(all_text(narrow).find(chart.title), std::string::npos);
  EXPECT_NE(all_text(narrow).find(chart.marks[0].label), std::string::npos);
  draw_all(chart);
}

TEST(AreaChartTest, LayersStandOnEachOther) {
  AreaChart chart{.title = "Memory",
                  .x_axis = {"operation", Unit::kCount},
                  .y_axis = {"", Unit::kBytes},
                  .x = {0, 1, 2},
                  .layers = {{"weight", {1024, 1024, 1024}}, {"activation", {0, 2048, 1024}}}};
  chart.marks = {{1, "peak"}};
  const std::string svg = draw_all(chart);
  EXPECT_EQ(count_of(svg, "class=\"area"), 2);
  EXPECT_EQ(count_of(svg, "class=\"key"), 2);
  EXPECT_NE(svg.find(">3 KiB</text>"), std::string::npos)
      << "the sum of the layers is the height of the axis";
}

TEST(AreaChartTest, ThePeakOfManyPositionsIsDrawn) {
  AreaChart chart{.layers = {{"a", {}}}};
  for (int i = 0; i < 50000; ++i) {
    chart.x.push_back(i);
    chart.layers[0].values.push_back(i == 33333 ? 100 : 1);
  }
  const std::string svg = draw_all(chart);
  EXPECT_LT(svg.size(), 120000U);
  EXPECT_NE(svg.find("V8H"), std::string::npos) << "the top of the axis is reached";
}

TEST(AreaChartTest, EmptyAndSinglePosition) {
  EXPECT_NE(draw(AreaChart{}).find("no values"), std::string::npos);
  expect_well_formed(draw(AreaChart{.x = {3}, .layers = {{"a", {5}}}}));
  expect_well_formed(draw(AreaChart{.x = {3, 4}, .layers = {{"a", {kNan, 0}}}}));
}

TEST(AreaChartTest, ALayerOfAnotherLengthIsAnError) {
  EXPECT_THROW(draw(AreaChart{.x = {1, 2}, .layers = {{"a", {1}}}}), InternalError);
}

TEST(BarChartTest, GroupedBarsHaveTheirValues) {
  const BarChart chart{
      .title = "Speed",
      .categories = {"batch 4", "1 × 4, checkpointing, bf16, Adafactor, a rung with a long name"},
      .series = {{"ours", {1.25, 2.5}}, {"theirs", {0.5, kNan}}},
      .axis = {"samples a second"}};
  const std::string svg = draw_all(chart);
  EXPECT_EQ(count_of(svg, "class=\"bar"), 3);
  EXPECT_EQ(count_of(svg, ">–</text>"), 1);
  EXPECT_NE(svg.find(">1.25</text>"), std::string::npos);
  EXPECT_NE(svg.find("<title>batch 4\ntheirs: 0.5</title>"), std::string::npos);
  for (const double width : kPlotWidths)
    EXPECT_NE(all_text(draw(chart, width)).find(chart.categories[1]), std::string::npos) << "no name is cut";
}

TEST(BarChartTest, StackedBarsSumUp) {
  const BarChart chart{
      .title = "Memory",
      .categories = {"a", "b"},
      .series = {{"weights", {1024, 1024}}, {"activations", {2048, 0}}, {"other", {kNan, 512}}},
      .layout = BarLayout::kStacked,
      .axis = {"", Unit::kBytes}};
  const std::string svg = draw_all(chart);
  EXPECT_EQ(count_of(svg, "class=\"bar"), 4);
  EXPECT_NE(svg.find(">3.00 KiB</text>"), std::string::npos);
  EXPECT_NE(svg.find(">1.50 KiB</text>"), std::string::npos);
}

TEST(BarChartTest, WithoutValuesSaysSo) {
  EXPECT_NE(draw(BarChart{}).find("no values"), std::string::npos);
  expect_well_formed(draw(BarChart{.categories = {"a"}, .series = {{"s", {0}}}}));
}

TEST(BarChartTest, MarksGoAroundTheTextsOfBars) {
  BarChart chart{.title = "Speed", .categories = {"one", "two", "three"}, .series = {{"", {1, 3, 1.98}}}};
  EXPECT_EQ(count_of(draw_all(chart), "class=\"mark\""), 0);
  chart.marks = {{2, "<reference>"}, {std::nan(""), "nowhere"}};
  const std::string svg = draw_all(chart);
  EXPECT_GT(count_of(svg, "class=\"mark\""), 1) << "the value of the third bar interrupts the line";
  EXPECT_NE(svg.find("&lt;reference&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("nowhere"), std::string::npos);
  chart.marks = {{0, "first at the very left"}, {0.1, "second beside it"}, {3, "third at the right end"}};
  draw_all(chart);
}

TEST(ScatterChartTest, ADotANameAndASpreadAPoint) {
  ScatterChart chart{.title = "Accuracy by memory", .x = {"memory", Unit::kBytes}, .y = {"accuracy"}};
  chart.groups = {"as the reference", "loses"};
  chart.points.push_back({.x = 4e8, .y = 0.8, .name = "fp32", .low = 0.78, .high = 0.81});
  chart.points.push_back({.x = 3e8, .y = 0.7, .name = "sgd <2>", .group = 1});
  chart.points.push_back({.x = kNan, .y = 0.9, .name = "not measured"});
  const std::string svg = draw_all(chart);
  EXPECT_EQ(count_of(svg, "<circle"), 2);
  EXPECT_EQ(count_of(svg, "class=\"line c0\""), 1) << "the spread of the first";
  EXPECT_EQ(count_of(svg, "class=\"dot c1\""), 1);
  EXPECT_NE(svg.find("sgd &lt;2&gt;"), std::string::npos);
  EXPECT_NE(svg.find("accuracy: 0.8 (0.78 to 0.81)"), std::string::npos);
  EXPECT_EQ(svg.find("not measured"), std::string::npos);
}

// Settings of the same accuracy: each name can be read.
TEST(ScatterChartTest, NamesDoNotCross) {
  ScatterChart chart{.title = "crowd", .x = {"x"}, .y = {"y"}};
  for (int64_t i = 0; i < 12; ++i)
    chart.points.push_back(
        {.x = 1 + 0.01 * static_cast<double>(i), .y = 0.5, .name = fmt::format("name {}", i)});
  chart.points.push_back({.x = 0.5, .y = 0.9, .name = "far"});
  const std::string svg = draw_all(chart);
  EXPECT_EQ(count_of(svg, "class=\"value\""), 13);
  chart.points = {{1, 0.5, "a"}, {0.5, 0.9, "b"}};
  EXPECT_GT(count_of(svg, "class=\"grid\""), count_of(draw(chart, kWide), "class=\"grid\"") + 4)
      << "names that stand apart are led to";
}

TEST(ScatterChartTest, NamesWithoutRoomAreNumbersOfAList) {
  ScatterChart chart{.title = "crowd", .x = {"memory", Unit::kBytes}, .y = {"accuracy"}};
  std::vector<std::string> names;
  for (int64_t i = 0; i < 24; ++i) {
    names.push_back(fmt::format("2 x 4 accumulation, layer-major, 8-bit AdamW (embeddings in {} bits)", i));
    chart.points.push_back({.x = 4e8 + 1e6 * static_cast<double>(i), .y = 0.8, .name = names.back()});
  }
  const std::string svg = draw_all(chart);
  for (const double width : kPlotWidths) {
    const std::string text = all_text(draw(chart, width));
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_NE(text.find(names[i]), std::string::npos) << names[i];
      EXPECT_EQ(count_of(svg, fmt::format(">{}</text>", i + 1)), 2) << "beside the dot and in the list";
    }
  }
}

TEST(ScatterChartTest, NoValues) {
  EXPECT_NE(draw(ScatterChart{.title = "none"}).find("no values"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
