#include "optim/reduce_lr_on_plateau.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using nlohmann::json;

PlateauOptions plateau_options_from(const json& kwargs) {
  PlateauOptions options;
  options.is_max = kwargs.value("mode", "min") == "max";
  options.factor = kwargs.value("factor", options.factor);
  options.patience = kwargs.value("patience", options.patience);
  options.threshold = kwargs.value("threshold", options.threshold);
  options.is_absolute = kwargs.value("threshold_mode", "rel") == "abs";
  options.cooldown = kwargs.value("cooldown", options.cooldown);
  options.min_lr = kwargs.value("min_lr", options.min_lr);
  options.eps = kwargs.value("eps", options.eps);
  return options;
}

// NaN and infinities are strings in the golden.
double number_of(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

// Doubles and the same operations on both sides, so every bit is equal.
TEST(ReduceLrOnPlateau, EqualsTorchsGoldens) {
  const json golden = read_json(SHOEHORN_SOURCE_DIR "/tests/golden/reduce_lr_on_plateau.json");
  const auto first = golden.at("learning_rate").get<double>();
  int64_t reductions = 0;
  int64_t in_cooldown = 0;
  for (const json& item : golden.at("cases")) {
    SCOPED_TRACE(item.at("kwargs").dump() + " " + item.at("metrics").get<std::string>());
    const json& metrics = golden.at("metrics").at(item.at("metrics").get<std::string>());
    const json& states = item.at("states");
    ASSERT_EQ(states.size(), metrics.size());
    const ReduceLrOnPlateau plateau(first, plateau_options_from(item.at("kwargs")));
    PlateauState state = plateau.start();
    for (size_t i = 0; i < metrics.size(); ++i) {
      const double before = state.learning_rate;
      state = plateau.next(state, number_of(metrics[i]));
      const PlateauState expected{.learning_rate = number_of(states[i].at(0)),
                                  .best = number_of(states[i].at(1)),
                                  .bad_evaluations = states[i].at(2),
                                  .cooldown_left = states[i].at(3)};
      ASSERT_EQ(state, expected) << "evaluation " << i + 1 << ": " << state.learning_rate << " " << state.best
                                 << " " << state.bad_evaluations << " " << state.cooldown_left;
      reductions += state.learning_rate < before ? 1 : 0;
      in_cooldown += state.cooldown_left > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(reductions, 50);
  EXPECT_GT(in_cooldown, 10);
}

TEST(ReduceLrOnPlateau, OptionsOutOfRangeAreNamed) {
  const auto error_of = [](const PlateauOptions& options) {
    try {
      ReduceLrOnPlateau(1e-3, options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const double nan = std::nan("");
  EXPECT_EQ(error_of({}), "");
  const std::vector<std::pair<const char*, PlateauOptions>> wrong = {
      {"factor", {.factor = 1}},      {"factor", {.factor = -0.1}},        {"factor", {.factor = nan}},
      {"patience", {.patience = -1}}, {"threshold", {.threshold = -1e-4}}, {"threshold", {.threshold = nan}},
      {"cooldown", {.cooldown = -1}}, {"min_lr", {.min_lr = -1}},          {"eps", {.eps = nan}}};
  for (const auto& [name, options] : wrong)
    EXPECT_EQ(error_of(options).find("[lr_scheduler_kwargs: " + std::string(name) + "] expected"), 0U)
        << name;
  EXPECT_THROW(ReduceLrOnPlateau(nan, {}), UserError);
}

}  // namespace
}  // namespace shoehorn
