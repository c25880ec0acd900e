#include "graph/relative_step.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(RelativeStep, IsTheSmallerOfItsBounds) {
  AdafactorSettings settings{.relative_step = true};
  EXPECT_EQ(relative_step(settings, 1), 1e-2);
  EXPECT_EQ(relative_step(settings, 10000), 1e-2);
  EXPECT_EQ(relative_step(settings, 40000), 1.0 / 200);
  settings.warmup_init = true;
  EXPECT_EQ(relative_step(settings, 1), 1e-6);
  EXPECT_EQ(relative_step(settings, 5000), 1e-6 * 5000);
  EXPECT_EQ(relative_step(settings, 40000), 1.0 / 200);
}

TEST(RelativeStep, OnlyOfAnAdafactorThatHasIt) {
  EXPECT_EQ(relative_step_of(AdafactorSettings{.relative_step = true, .warmup_init = true}, 6), 7e-6);
  EXPECT_FALSE(relative_step_of(AdafactorSettings{.scale_parameter = true}, 6).has_value());
  EXPECT_FALSE(relative_step_of(AdamWSettings{}, 6).has_value());
}

}  // namespace
}  // namespace shoehorn
