#include "report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace shoehorn {
namespace {

using Labels = std::vector<std::string>;

TEST(AxisTest, TicksAreNiceMultiplesThatCoverTheValues) {
  const AxisTicks ticks = make_ticks(0.13, 2.9, {}, 7);
  EXPECT_EQ(ticks.labels, (Labels{"0", "1", "2", "3"}));
  EXPECT_EQ(ticks.low, 0);
  EXPECT_EQ(ticks.high, 3);
}

TEST(AxisTest, LabelsOfSmallNumbersAreShort) {
  EXPECT_EQ(make_ticks(0, 5e-5, {}, 7).labels, (Labels{"0", "1e-5", "2e-5", "3e-5", "4e-5", "5e-5"}));
  EXPECT_EQ(make_ticks(0.2, 0.4, {}, 6).labels, (Labels{"0.2", "0.25", "0.3", "0.35", "0.4"}));
}

TEST(AxisTest, UnitsAreOneForTheAxis) {
  const double gib = std::pow(1024.0, 3);
  EXPECT_EQ(make_ticks(0, 2.9 * gib, {.unit = Unit::kBytes}, 6).labels,
            (Labels{"0", "1 GiB", "2 GiB", "3 GiB"}));
  EXPECT_EQ(make_ticks(0, 0.04, {.unit = Unit::kSeconds}, 6).labels,
            (Labels{"0", "10 ms", "20 ms", "30 ms", "40 ms"}));
  EXPECT_EQ(make_ticks(0, 1, {.unit = Unit::kShare}, 7).labels,
            (Labels{"0", "20 %", "40 %", "60 %", "80 %", "100 %"}));
  EXPECT_EQ(make_ticks(0, 3000, {.unit = Unit::kCount}, 6).labels, (Labels{"0", "1,000", "2,000", "3,000"}));
}

TEST(AxisTest, CountsHaveNoFractions) {
  EXPECT_EQ(make_ticks(1, 2, {.unit = Unit::kCount}, 10).labels, (Labels{"1", "2"}));
}

TEST(AxisTest, ASingleValueHasRoomAroundIt) {
  for (const double value : {0.0, 1.0, -3.5, 1e-9, 7e12}) {
    for (const bool from_zero : {false, true}) {
      const AxisTicks ticks = make_ticks(value, value, {.from_zero = from_zero}, 7);
      EXPECT_LT(ticks.low, ticks.high) << value;
      EXPECT_GE(ticks.position(value), 0) << value;
      EXPECT_LE(ticks.position(value), 1) << value;
      EXPECT_GE(ticks.labels.size(), 2U) << value;
    }
  }
}

TEST(AxisTest, EveryAxisHasFewOrderedTicksWithinItsEnds) {
  for (const Unit unit : {Unit::kNumber, Unit::kCount, Unit::kBytes, Unit::kSeconds, Unit::kShare}) {
    for (const bool logarithmic : {false, true}) {
      for (const double low : {1e-6, 0.3, 1.0, 123456.0}) {
        for (const double ratio : {1.0, 1.001, 3.0, 97.0, 1e5}) {
          for (const int64_t most : {2, 5, 9}) {
            for (const bool widen : {false, true}) {
              const AxisTicks ticks =
                  make_ticks(low, low * ratio, {.unit = unit, .logarithmic = logarithmic}, most, widen);
              ASSERT_EQ(ticks.at.size(), ticks.labels.size());
              EXPECT_LE(static_cast<int64_t>(ticks.at.size()), std::max<int64_t>(most, 3));
              for (size_t i = 0; i < ticks.at.size(); ++i) {
                EXPECT_GE(ticks.position(ticks.at[i]), -1e-6);
                EXPECT_LE(ticks.position(ticks.at[i]), 1 + 1e-6);
                if (i == 0) continue;
                EXPECT_LT(ticks.at[i - 1], ticks.at[i]);
                EXPECT_NE(ticks.labels[i - 1], ticks.labels[i]);
              }
              EXPECT_GE(ticks.position(low), -1e-6);
              EXPECT_LE(ticks.position(low * ratio), 1 + 1e-6);
            }
          }
        }
      }
    }
  }
}

TEST(AxisTest, LogarithmicTicksAreDecades) {
  const AxisTicks ticks = make_ticks(0.02, 30, {.logarithmic = true}, 7);
  EXPECT_EQ(ticks.labels, (Labels{"0.01", "0.1", "1", "10", "100"}));
  EXPECT_DOUBLE_EQ(ticks.position(1), 0.5);
  EXPECT_TRUE(std::isnan(ticks.position(0)));
  EXPECT_TRUE(std::isnan(ticks.position(-1)));
}

TEST(AxisTest, RangeLeavesOutWhatHasNoPlace) {
  const PlotAxis logarithmic{.logarithmic = true};
  AxisRange range(logarithmic);
  for (const double value : {std::nan(""), -1.0, 0.0, std::numeric_limits<double>::infinity()})
    range.add(value);
  EXPECT_TRUE(range.is_empty());
  range.add(3);
  range.add(2);
  EXPECT_EQ(range.low(), 2);
  EXPECT_EQ(range.high(), 3);
}

TEST(AxisTest, ValuesAreSaidInTheirUnit) {
  EXPECT_EQ(format_value(1536, Unit::kBytes), "1.50 KiB");
  EXPECT_EQ(format_value(0.0125, Unit::kSeconds), "12.5 ms");
  EXPECT_EQ(format_value(3.25e-5, Unit::kSeconds), "32.5 µs");
  EXPECT_EQ(format_value(2.5, Unit::kSeconds), "2.5 s");
  EXPECT_EQ(format_difference(-949504, Unit::kBytes), "-927.25 KiB");
  EXPECT_EQ(format_difference(1536, Unit::kBytes), "+1.50 KiB");
  EXPECT_EQ(format_difference(0, Unit::kBytes), "0 B");
  EXPECT_EQ(format_value(125.4, Unit::kSeconds), "2 min 05 s");
  EXPECT_EQ(format_value(12345, Unit::kSeconds), "3 h 26 min");
  EXPECT_EQ(format_value(0.256, Unit::kShare), "25.6 %");
  EXPECT_EQ(format_value(0.5, Unit::kShare), "50 %");
  EXPECT_EQ(format_value(0, Unit::kShare), "0 %");
  EXPECT_EQ(format_value(7.49e-6, Unit::kShare), "< 0.1 %");
  EXPECT_EQ(format_value(1234567, Unit::kCount), "1,234,567");
  EXPECT_EQ(format_value(5e-5, Unit::kNumber), "5e-5");
  EXPECT_EQ(format_value(-std::nan(""), Unit::kBytes), "nan");
}

}  // namespace
}  // namespace shoehorn
