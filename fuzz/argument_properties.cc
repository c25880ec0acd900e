#include "fuzz/argument_properties.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/batch_size_ramp.h"
#include "base/error.h"
#include "io/json_file.h"
#include "state/trainer_state.h"

namespace shoehorn::fuzz {
namespace {

void check_finite(const nlohmann::json& value, const std::string& name) {
  CHECK(!value.is_number_float() || std::isfinite(value.get<double>()), "{} is {}", name, value.dump());
  if (!value.is_object()) return;
  for (const auto& [key, child] : value.items()) check_finite(child, key);
}

}  // namespace

void check_arguments(const TrainingArguments& arguments) {
  const nlohmann::json json = to_json(arguments);
  check_finite(json, "the object");
  const std::string text = format_json(json);
  const TrainingArguments again =
      training_arguments_from_json(parse_json(text, "training_args.json"), "training_args.json");
  CHECK(format_json(to_json(again)) == text, "other arguments are read than written");

  TrainerState state;
  for (const int64_t steps : {int64_t{1}, int64_t{1000}}) {
    state.compute_steps(arguments, steps);
    const int64_t warmup_steps = warmup_steps_of(arguments, steps);
    CHECK(warmup_steps >= 0, "{} steps of warm-up", warmup_steps);
    if (reduce_lr_on_plateau_of(arguments)) continue;
    const Schedule schedule = schedule_of(arguments, steps);
    for (const int64_t step : {int64_t{0}, steps / 2, steps}) schedule.learning_rate(step);
  }
  batch_size_ramp_of(arguments);
  recompute_every_n_layers(arguments);
  optimizer_settings_of(arguments);
  text_columns_of(arguments);
}

}  // namespace shoehorn::fuzz
