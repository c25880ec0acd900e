#include "state/resume_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

using nlohmann::json;

json to_json(const RunIdentity& identity) {
  return {{"training_samples", identity.training_samples}, {"training_data", identity.training_data},
          {"evaluation_data", identity.evaluation_data},   {"companions", identity.companions},
          {"base_weights", identity.base_weights},         {"machine", identity.machine}};
}

json to_json(const TrainerControl& control) {
  return {{"should_epoch_stop", control.should_epoch_stop},
          {"should_evaluate", control.should_evaluate},
          {"should_log", control.should_log},
          {"should_save", control.should_save},
          {"should_training_stop", control.should_training_stop}};
}

json to_json(const RunPosition& position) {
  return {{"applied_updates", position.applied_updates},    {"skipped_steps", position.skipped_steps},
          {"samples_consumed", position.samples_consumed},  {"loss_since_log", position.loss_since_log},
          {"last_logged_step", position.last_logged_step},  {"loss_total", position.loss_total},
          {"nonfinite_losses", position.nonfinite_losses},  {"is_epoch_ended", position.is_epoch_ended},
          {"skipped_in_epochs", position.skipped_in_epochs}};
}

json to_json(const LossScaleValues& values) {
  return {{"scale", values.scale},
          {"applied_in_row", values.applied_in_row},
          {"overflows_to_go", values.overflows_to_go}};
}

json to_json(const PlateauState& plateau) {
  return {{"learning_rate", plateau.learning_rate},
          {"best", plateau.best},
          {"bad_evaluations", plateau.bad_evaluations},
          {"cooldown_left", plateau.cooldown_left}};
}

// An object of the file, and how errors name it.
struct Section {
  json object;
  std::string source;
};

Section section_of(const json& parent, std::string_view name, const std::string& source) {
  const bool is_there = parent.is_object() && parent.contains(name);
  if (is_there && parent[name].is_object()) return {parent[name], fmt::format("{}: {}", source, name)};
  throw user_error("[{}] expected an object '{}', got {}; is the file shoehorn's?", source, name,
                   is_there ? parent[name].dump() : "none");
}

template <typename T>
void read(const Section& section, std::string_view name, T& member) {
  const auto found = section.object.find(name);
  const auto wrong = [&](const char* expected) {
    return user_error("[{}: {}] expected {}, got {}", section.source, name, expected,
                      found == section.object.end() ? "nothing" : found->dump());
  };
  if constexpr (std::is_same_v<T, bool>) {
    if (found == section.object.end() || !found->is_boolean()) throw wrong("true or false");
    member = found->get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (found == section.object.end() || !found->is_string()) throw wrong("a text");
    member = found->get<std::string>();
  } else if constexpr (std::is_integral_v<T>) {
    const std::optional<int64_t> count = found == section.object.end() ? std::nullopt : whole_number(*found);
    if (!count || *count < 0 || *count > std::numeric_limits<T>::max())
      throw wrong("a whole number, 0 or more");
    member = static_cast<T>(*count);
  } else {
    if (found == section.object.end() || !found->is_number()) throw wrong("a number");
    const auto number = found->get<double>();
    if (std::isfinite(number) && std::abs(number) > double{std::numeric_limits<T>::max()})
      throw wrong("a number within its range");
    member = static_cast<T>(number);
  }
}

// Keys that older checkpoints do not have leave their member as it is.
template <typename T>
void read_newer(const Section& section, std::string_view name, T& member) {
  if (section.object.contains(name)) read(section, name, member);
}

RunIdentity identity_of(const Section& section) {
  RunIdentity identity;
  read_newer(section, "training_samples", identity.training_samples);
  read_newer(section, "training_data", identity.training_data);
  read_newer(section, "evaluation_data", identity.evaluation_data);
  read_newer(section, "base_weights", identity.base_weights);
  read_newer(section, "machine", identity.machine);
  if (!section.object.contains("companions")) return identity;
  const Section companions = section_of(section.object, "companions", section.source);
  for (const auto& [name, content] : companions.object.items())
    read(companions, name, identity.companions[name]);
  return identity;
}

RunPosition position_of(const Section& section) {
  RunPosition position;
  read(section, "applied_updates", position.applied_updates);
  read_newer(section, "skipped_steps", position.skipped_steps);
  read(section, "samples_consumed", position.samples_consumed);
  read(section, "loss_since_log", position.loss_since_log);
  read(section, "last_logged_step", position.last_logged_step);
  read(section, "loss_total", position.loss_total);
  read(section, "nonfinite_losses", position.nonfinite_losses);
  read_newer(section, "is_epoch_ended", position.is_epoch_ended);
  read_newer(section, "skipped_in_epochs", position.skipped_in_epochs);
  return position;
}

TrainerControl due_of(const Section& section) {
  TrainerControl control;
  read(section, "should_epoch_stop", control.should_epoch_stop);
  read(section, "should_evaluate", control.should_evaluate);
  read(section, "should_log", control.should_log);
  read(section, "should_save", control.should_save);
  read(section, "should_training_stop", control.should_training_stop);
  return control;
}

LossScaleValues loss_scale_of(const Section& section) {
  LossScaleValues values;
  read(section, "scale", values.scale);
  read(section, "applied_in_row", values.applied_in_row);
  read(section, "overflows_to_go", values.overflows_to_go);
  if (!(values.scale > 0 && std::isfinite(values.scale)))
    throw user_error("[{}] expected a scale above 0, got {}", section.source, values.scale);
  return values;
}

PlateauState plateau_of(const Section& section) {
  PlateauState plateau;
  read(section, "learning_rate", plateau.learning_rate);
  read(section, "best", plateau.best);
  read(section, "bad_evaluations", plateau.bad_evaluations);
  read(section, "cooldown_left", plateau.cooldown_left);
  if (!(plateau.learning_rate >= 0 && std::isfinite(plateau.learning_rate))) {
    throw user_error("[{}] expected a learning_rate of 0 or more, got {}", section.source,
                     plateau.learning_rate);
  }
  return plateau;
}

}  // namespace

json to_json(const ResumeState& state) {
  json object = {{"identity", to_json(state.identity)}, {"position", to_json(state.position)}};
  if (state.loss_scale) object["loss_scale"] = to_json(*state.loss_scale);
  if (state.position.plateau) object[kReduceLrOnPlateau] = to_json(*state.position.plateau);
  if (state.position.due) object["due"] = to_json(*state.position.due);
  return object;
}

ResumeState resume_state_from_json(const json& object, const std::string& source) {
  const Section position = section_of(object, "position", source);
  ResumeState state;
  state.position = position_of(position);
  if (object.contains("identity")) state.identity = identity_of(section_of(object, "identity", source));
  // Where it was before there was an identity.
  if (state.identity.training_samples == 0)
    read_newer(position, "training_samples", state.identity.training_samples);
  if (object.contains("loss_scale"))
    state.loss_scale = loss_scale_of(section_of(object, "loss_scale", source));
  if (object.contains(kReduceLrOnPlateau))
    state.position.plateau = plateau_of(section_of(object, kReduceLrOnPlateau, source));
  if (object.contains("due")) state.position.due = due_of(section_of(object, "due", source));
  return state;
}

}  // namespace shoehorn
