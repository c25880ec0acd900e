#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error_testing.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

ScheduleOptions options_from(const nlohmann::json& kwargs) {
  ScheduleOptions options;
  for (const auto& [key, value] : kwargs.items()) {
    if (key == "num_cycles") options.num_cycles = value.get<double>();
    if (key == "power") options.power = value.get<double>();
    if (key == "lr_end") options.lr_end = value.get<double>();
    if (key == "timescale") options.timescale = value.get<double>();
    if (key == "min_lr") options.min_lr = value.get<double>();
    if (key == "min_lr_rate") options.min_lr_rate = value.get<double>();
    if (key == "warmup_lr_rate") options.warmup_lr_rate = value.get<double>();
    if (key == "num_stable_steps") options.num_stable_steps = value.get<double>();
    if (key == "num_decay_steps") options.num_decay_steps = value.get<double>();
    if (key == "min_lr_ratio") options.min_lr_ratio = value.get<double>();
    if (key == "warmup_type") options.warmup_type = value.get<std::string>();
    if (key == "decay_type") options.decay_type = value.get<std::string>();
  }
  return options;
}

std::string error_of(ScheduleType type, const ScheduleOptions& options) {
  return refusal_of([&] { Schedule(type, 5e-5, 5, 50, options); });
}

TEST(Schedule, EqualsTransformersGoldens) {
  const nlohmann::json golden = read_json(SHOEHORN_SOURCE_DIR "/tests/golden/schedules.json");
  const auto learning_rate = golden.at("learning_rate").get<double>();
  const auto total_steps = golden.at("total_steps").get<int64_t>();
  std::vector<std::string> seen;
  for (const nlohmann::json& item : golden.at("cases")) {
    const std::string name = item.at("type");
    const int64_t warmup_steps = item.at("warmup_steps");
    if (seen.empty() || seen.back() != name) seen.push_back(name);
    const Schedule schedule(parse_schedule_type(name), learning_rate, warmup_steps, total_steps,
                            options_from(item.at("kwargs")));
    const nlohmann::json& values = item.at("values");
    ASSERT_GT(values.size(), 50U);
    for (size_t step = 0; step < values.size(); ++step) {
      const double actual = schedule.multiplier(static_cast<int64_t>(step));
      ASSERT_TRUE(std::isfinite(actual));
      if (values[step].is_null()) continue;  // transformers divides by zero there
      const double expected = values[step].get<double>();
      ASSERT_NEAR(actual, expected, 1e-12 * std::abs(expected) + 1e-300)
          << name << " " << item.at("kwargs") << " W=" << warmup_steps << " step=" << step;
    }
  }
  EXPECT_EQ(seen, schedule_names());
}

TEST(Schedule, LearningRateIsTheMultiplierTimesTheLargest) {
  const Schedule schedule(ScheduleType::kLinear, 2e-3, 10, 110);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(5), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 2e-3);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(60), 1e-3);
  EXPECT_EQ(schedule.learning_rate(500), 0.0);
}

// DeepSpeed's schedules begin so: fast, and slower from step to step.
TEST(Schedule, WarmupMayBeALogarithm) {
  for (const ScheduleType type : {ScheduleType::kConstantWithWarmup, ScheduleType::kLinear,
                                  ScheduleType::kCosine, ScheduleType::kCosineWithMinLr}) {
    ScheduleOptions options{.warmup_type = "log"};
    if (type == ScheduleType::kCosineWithMinLr) options.min_lr_rate = 0.1;
    const Schedule schedule(type, 1.0, 16, 100, options);
    EXPECT_EQ(schedule.multiplier(0), 0.0);
    EXPECT_DOUBLE_EQ(schedule.multiplier(1), 0.25);
    EXPECT_DOUBLE_EQ(schedule.multiplier(3), 0.5);
    EXPECT_DOUBLE_EQ(schedule.multiplier(15), 1.0);
    EXPECT_DOUBLE_EQ(schedule.multiplier(16), 1.0);
    options.warmup_type = "linear";
    EXPECT_DOUBLE_EQ(Schedule(type, 1.0, 16, 100, options).multiplier(1), 1.0 / 16);
  }
  EXPECT_EQ(Schedule(ScheduleType::kLinear, 1.0, 1, 10, {.warmup_type = "log"}).multiplier(0), 0.0)
      << "one step of warm-up";
}

TEST(Schedule, WarmupBelowOneIsAShareRoundedUp) {
  EXPECT_EQ(warmup_step_count(0.0, 100), 0);
  EXPECT_EQ(warmup_step_count(0.06, 50), 3);
  EXPECT_EQ(warmup_step_count(0.06, 51), 4);
  EXPECT_EQ(warmup_step_count(1.0, 50), 1);
  EXPECT_EQ(warmup_step_count(500.0, 50), 500);
  EXPECT_THROW(warmup_step_count(-1.0, 50), UserError);
  EXPECT_THROW(warmup_step_count(std::nan(""), 50), UserError);
}

TEST(Schedule, UnknownNamesAreNamed) {
  const auto message = [](std::string_view name) { return refusal_of([&] { parse_schedule_type(name); }); };
  EXPECT_NE(message("reduce_lr_on_plateau").find("expected a function of the step"), std::string::npos);
  EXPECT_NE(message("greedy").find("not in this version yet"), std::string::npos);
  EXPECT_NE(message("cosin").find("did you mean cosine?"), std::string::npos);
  EXPECT_NE(message("qqqqqqqqq").find("warmup_stable_decay"), std::string::npos);
}

TEST(Schedule, OptionsOfOtherTypesAreRefused) {
  EXPECT_NE(error_of(ScheduleType::kLinear, {.power = 2.0}).find("lr_scheduler_kwargs: power"),
            std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kPolynomial, {.warmup_type = "linear"}).find("warmup_type"),
            std::string::npos);
  EXPECT_NE(
      error_of(ScheduleType::kCosine, {.warmup_type = "cosine"}).find("expected linear or log for cosine"),
      std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kPolynomial, {.lr_end = 1e-3}).find("lr_end"), std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kPolynomial, {.power = std::nan("")}).find("power"), std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kCosineWithMinLr, {}).find("neither"), std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kCosineWithMinLr, {.min_lr = 1e-6, .min_lr_rate = 0.1}).find("both"),
            std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kWarmupStableDecay, {}).find("num_decay_steps"), std::string::npos);
  EXPECT_NE(
      error_of(ScheduleType::kWarmupStableDecay, {.num_decay_steps = 5.0, .decay_type = "exp"}).find("'exp'"),
      std::string::npos);
  EXPECT_NE(error_of(ScheduleType::kInverseSqrt, {.timescale = 0.0}).find("timescale"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
