#include "report/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <regex>

#include "base/error.h"
#include "report/svg.h"

namespace shoehorn {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

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

// No text begins left of the element or ends right of it, by the width that is reckoned for it.
void expect_texts_inside(const std::string& svg) {
  const std::regex text(
      "<text x=\"([-0-9.]+)\" y=\"[-0-9.]+\" text-anchor=\"([a-z]+)\" class=\"[a-z]+\">([^<]*)<");
  for (std::sregex_iterator it(svg.begin(), svg.end(), text), end; it != end; ++it) {
    const double width = svg::text_width((*it)[3].str());
    double left = std::stod((*it)[1]);
    if ((*it)[2] == "middle") left -= width / 2;
    if ((*it)[2] == "end") left -= width;
    EXPECT_GE(left, -0.1) << (*it)[3];
    EXPECT_LE(left + width, svg::kWidth + 0.1) << (*it)[3];
  }
}

LineChart chart_of(std::vector<PlotPoint> points) {
  LineChart chart{.title = "Loss", .x = {"step", Unit::kCount}, .y = {"loss"}};
  chart.series.push_back({"train", std::move(points)});
  return chart;
}

TEST(LineChartTest, DrawsAPathADotAPointAndAxes) {
  const std::string svg = draw(chart_of({{1, 2.5}, {2, 1.5}, {3, 1.25}}));
  expect_well_formed(svg);
  expect_texts_inside(svg);
  EXPECT_EQ(count_of(svg, "class=\"line c0\""), 1);
  EXPECT_EQ(count_of(svg, "<circle"), 3);
  EXPECT_NE(svg.find("train, step 2: 1.5"), std::string::npos);
  EXPECT_NE(svg.find(">loss</text>"), std::string::npos);
  EXPECT_EQ(count_of(svg, "class=\"key"), 0) << "one series needs no legend";
}

TEST(LineChartTest, BreaksAtWhatIsNotANumber) {
  const std::string svg = draw(chart_of({{1, 1}, {2, 2}, {3, kNan}, {4, 2}, {5, 1}}));
  expect_well_formed(svg);
  const std::string path = svg.substr(svg.find("<path d=\""));
  EXPECT_EQ(count_of(path.substr(0, path.find("class")), "M"), 2);
}

TEST(LineChartTest, APointAloneIsADot) {
  for (const auto& points : {std::vector<PlotPoint>{{7, 3}}, std::vector<PlotPoint>{{1, kNan}, {7, 3}}}) {
    const std::string svg = draw(chart_of(points));
    expect_well_formed(svg);
    EXPECT_EQ(count_of(svg, "class=\"dot c0\""), 1);
  }
}

TEST(LineChartTest, WithoutValuesSaysSo) {
  for (const auto& points : {std::vector<PlotPoint>{}, std::vector<PlotPoint>{{1, kNan}}}) {
    const std::string svg = draw(chart_of(points));
    expect_well_formed(svg);
    EXPECT_NE(svg.find(">no values</text>"), std::string::npos);
  }
  EXPECT_NE(draw(LineChart{}).find("no values"), std::string::npos);
}

TEST(LineChartTest, ALogarithmicAxisLeavesOutZero) {
  LineChart chart = chart_of({{1, 0}, {2, 0.01}, {3, 10}});
  chart.y.logarithmic = true;
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_NE(svg.find(">0.01</text>"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<circle"), 2);
}

TEST(LineChartTest, ManyPointsKeepTheirExtremes) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 100000; ++i)
    points.push_back({static_cast<double>(i), i == 54321 ? 9.0 : (i % 7) / 7.0});
  LineChart chart = chart_of(points);
  chart.y.title.clear();
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_LT(svg.size(), 100000U);
  const svg::Frame frame{0, 30, 1, 250, {}, make_ticks(0, 9, {}, 7)};
  EXPECT_NE(svg.find(" " + svg::number(frame.y_at(9)) + "L"), std::string::npos);
}

TEST(LineChartTest, SeriesBeyondTheColoursHaveAnotherDash) {
  LineChart chart;
  for (int64_t i = 0; i < 2 * kSeriesColors; ++i)
    chart.series.push_back({fmt::format("s{}", i), {{0, 0}, {1, static_cast<double>(i)}}});
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  expect_texts_inside(svg);
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

TEST(PlotTest, AMarkStandsAtItsPlaceAndItsTextInside) {
  LineChart chart = chart_of({{0, 1}, {10, 2}});
  chart.marks = {{0, "a rather long text at the start"}, {10, "a rather long text at the end"}};
  const std::string svg = draw(chart);
  EXPECT_EQ(count_of(svg, "class=\"mark\""), 2);
  expect_texts_inside(svg);
}

TEST(AreaChartTest, LayersStandOnEachOther) {
  AreaChart chart{.title = "Memory",
                  .x_axis = {"operation", Unit::kCount},
                  .y_axis = {"", Unit::kBytes},
                  .x = {0, 1, 2},
                  .layers = {{"weight", {1024, 1024, 1024}}, {"activation", {0, 2048, 1024}}}};
  chart.marks = {{1, "peak"}};
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  expect_texts_inside(svg);
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
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_LT(svg.size(), 120000U);
  EXPECT_NE(svg.find(svg::number(26 + 4) + "L"), std::string::npos) << "the top of the axis is reached";
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
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  expect_texts_inside(svg);
  EXPECT_EQ(count_of(svg, "class=\"bar"), 3);
  EXPECT_EQ(count_of(svg, ">–</text>"), 1);
  EXPECT_NE(svg.find(">1.25</text>"), std::string::npos);
  EXPECT_NE(svg.find("batch 4, theirs: 0.5"), std::string::npos);
  EXPECT_NE(svg.find("…</text>"), std::string::npos) << "a long name is shortened";
}

TEST(BarChartTest, StackedBarsSumUp) {
  const BarChart chart{
      .title = "Memory",
      .categories = {"a", "b"},
      .series = {{"weights", {1024, 1024}}, {"activations", {2048, 0}}, {"other", {kNan, 512}}},
      .layout = BarLayout::kStacked,
      .axis = {"", Unit::kBytes}};
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  expect_texts_inside(svg);
  EXPECT_EQ(count_of(svg, "class=\"bar"), 4);
  EXPECT_NE(svg.find(">3.00 KiB</text>"), std::string::npos);
  EXPECT_NE(svg.find(">1.50 KiB</text>"), std::string::npos);
}

TEST(BarChartTest, WithoutValuesSaysSo) {
  EXPECT_NE(draw(BarChart{}).find("no values"), std::string::npos);
  expect_well_formed(draw(BarChart{.categories = {"a"}, .series = {{"s", {0}}}}));
}

TEST(Plots, BarsHaveMarks) {
  BarChart chart{.title = "Speed", .categories = {"one", "two"}, .series = {{"", {1, 3}}}};
  const int64_t lines = count_of(draw(chart), "class=\"mark\"");
  EXPECT_EQ(lines, 0);
  chart.marks = {{2, "<reference>"}, {std::nan(""), "nowhere"}};
  const std::string svg = draw(chart);
  EXPECT_EQ(count_of(svg, "class=\"mark\""), 1);
  EXPECT_NE(svg.find("&lt;reference&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("nowhere"), std::string::npos);
}

TEST(ScatterChartTest, ADotANameAndASpreadAPoint) {
  ScatterChart chart{.title = "Accuracy by memory", .x = {"memory", Unit::kBytes}, .y = {"accuracy"}};
  chart.groups = {"as the reference", "loses"};
  chart.points.push_back({.x = 4e8, .y = 0.8, .name = "fp32", .low = 0.78, .high = 0.81});
  chart.points.push_back({.x = 3e8, .y = 0.7, .name = "sgd <2>", .group = 1});
  chart.points.push_back({.x = kNan, .y = 0.9, .name = "not measured"});
  const std::string svg = draw(chart);
  expect_well_formed(svg);
  expect_texts_inside(svg);
  EXPECT_EQ(count_of(svg, "<circle"), 2);
  EXPECT_EQ(count_of(svg, "class=\"line c0\""), 1) << "the spread of the first";
  EXPECT_EQ(count_of(svg, "class=\"dot c1\""), 1);
  EXPECT_NE(svg.find("sgd &lt;2&gt;"), std::string::npos);
  EXPECT_NE(svg.find("accuracy 0.8 (0.78 to 0.81)"), std::string::npos);
  EXPECT_EQ(svg.find("not measured"), std::string::npos);
}

// Twenty settings of the same accuracy: each name can be read.
TEST(ScatterChartTest, NamesDoNotCross) {
  ScatterChart chart{.title = "crowd", .x = {"x"}, .y = {"y"}};
  for (int64_t i = 0; i < 12; ++i)
    chart.points.push_back(
        {.x = 1 + 0.01 * static_cast<double>(i), .y = 0.5, .name = fmt::format("name {}", i)});
  chart.points.push_back({.x = 0.5, .y = 0.9, .name = "far"});
  const std::string svg = draw(chart);
  expect_texts_inside(svg);
  const std::regex text(
      "<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" text-anchor=\"start\" class=\"value\">([^<]*)<");
  std::vector<std::array<double, 3>> places;  // left, right, y
  for (std::sregex_iterator it(svg.begin(), svg.end(), text), end; it != end; ++it) {
    const double left = std::stod((*it)[1]);
    places.push_back({left, left + svg::text_width((*it)[3].str()), std::stod((*it)[2])});
  }
  ASSERT_EQ(places.size(), 13U);
  chart.points = {{1, 0.5, "a"}, {0.5, 0.9, "b"}};
  EXPECT_GT(count_of(svg, "class=\"grid\""), count_of(draw(chart), "class=\"grid\"") + 4)
      << "names that stand apart are led to";
  for (size_t a = 0; a < places.size(); ++a) {
    for (size_t b = a + 1; b < places.size(); ++b) {
      const bool beside = places[a][1] <= places[b][0] + 0.2 || places[b][1] <= places[a][0] + 0.2;
      EXPECT_TRUE(beside || std::abs(places[a][2] - places[b][2]) > 12) << a << " and " << b;
    }
  }
}

TEST(ScatterChartTest, NoValues) {
  EXPECT_NE(draw(ScatterChart{.title = "none"}).find("no values"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
