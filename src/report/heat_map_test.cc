#include "report/heat_map.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shoehorn {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HeatMap, ShadesAreSharesOfARow) {
  const std::string svg = draw(HeatMap{.title = "Confusion matrix",
                                       .row_title = "label",
                                       .column_title = "prediction",
                                       .names = {"a<b", "other"},
                                       .counts = {3, 1, 0, 1200}});
  for (const char* part :
       {"Confusion matrix", "label down, prediction across", "fill-opacity=\"0.750\"",
        "fill-opacity=\"0.250\"", "fill-opacity=\"0.000\"", "fill-opacity=\"1.000\"",
        "label a&lt;b, prediction other: 1 (25.0 %)", "label other, prediction other: 1,200 (100.0 %)"}) {
    EXPECT_TRUE(contains(svg, part)) << part << "\n" << svg;
  }
  EXPECT_FALSE(contains(svg, "a<b"));
}

// A class that is called 0 is not the first of them.
TEST(HeatMap, ShortNamesStandAtTheirColumns) {
  const std::string svg = draw(HeatMap{.names = {"0", "1"}, .counts = {1, 0, 0, 1}}, 800);
  EXPECT_TRUE(contains(svg, ">0</text>"));
  EXPECT_FALSE(contains(svg, ">2</text>"));
  const std::string longer = draw(HeatMap{.names = std::vector<std::string>(12, "a long name of a class"),
                                          .counts = std::vector<int64_t>(144, 1)},
                                  800);
  EXPECT_TRUE(contains(longer, ">12</text>"));
}

TEST(HeatMap, ARowWithoutCountsHasNoShade) {
  const std::string svg = draw(HeatMap{.names = {"a", "b"}, .counts = {0, 0, 1, 1}});
  EXPECT_TRUE(contains(svg, "fill-opacity=\"0.000\""));
  EXPECT_FALSE(contains(svg, "nan"));
}

TEST(HeatMap, ManyNamesLeaveRoomForTheirCells) {
  constexpr size_t kNames = 100;
  HeatMap map{.names = std::vector<std::string>(kNames, "a long name of a class"),
              .counts = std::vector<int64_t>(kNames * kNames, 7)};
  const std::string svg = draw(map);
  EXPECT_FALSE(contains(svg, "class=\"value\"")) << "no cell has room for its count";
  map.counts.pop_back();
  EXPECT_THROW(draw(map), InternalError);
}

}  // namespace
}  // namespace shoehorn
