#include "state/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments/argument_checks.h"
#include "base/error.h"
#include "base/format.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

template <typename T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json metrics_to_json(const Metrics& metrics) {
  Json object = Json::object();
  for (const auto& [key, value] : metrics)
    object[key] = std::visit([](auto number) { return Json(number); }, value);
  return object;
}

// Reads the fields of one JSON object; finish() rejects those nobody read.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string source) : object_(object), source_(std::move(source)) {
    if (!object.is_object())
      throw user_error("[{}] expected a JSON object, got {}", source_, object.type_name());
  }

  const Json& field(const std::string& name) {
    read_.push_back(name);
    const auto found = object_.find(name);
    if (found == object_.end()) throw user_error("[{}: {}] expected a value, got nothing", source_, name);
    return *found;
  }

  bool flag(const std::string& name) {
    const Json& json = field(name);
    if (!json.is_boolean()) throw wrong(name, "true or false", json);
    return json.get<bool>();
  }
  double number(const std::string& name) {
    const Json& json = field(name);
    if (!json.is_number()) throw wrong(name, "a number", json);
    return json.get<double>();
  }
  // Also read from floats, which some versions of transformers wrote.
  int64_t count(const std::string& name) {
    const Json& json = field(name);
    if (const std::optional<int64_t> number = whole_number(json); number && *number >= 0) return *number;
    if (json.is_number_float() && json.get<double>() >= 0 && json.get<double>() <= kMaxSteps &&
        std::floor(json.get<double>()) == json.get<double>()) {
      return static_cast<int64_t>(json.get<double>());
    }
    throw wrong(name, "an integer of 0 or more", json);
  }
  std::string text(const std::string& name) {
    const Json& json = field(name);
    if (!json.is_string()) throw wrong(name, "a text", json);
    return json.get<std::string>();
  }
  template <typename Read>
  auto optional(const std::string& name, Read read) -> std::optional<decltype((this->*read)(name))> {
    if (field(name).is_null()) return std::nullopt;
    return (this->*read)(name);
  }

  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (std::find(read_.begin(), read_.end(), name) != read_.end()) continue;
      const std::string nearest = nearest_name(name, read_);
      throw user_error("[{}: {}] expected a known field, got '{}'{}", source_, name, name,
                       nearest.empty() ? "" : "; did you mean " + nearest + "?");
    }
  }

  UserError wrong(const std::string& name, std::string_view expected, const Json& json) const {
    return user_error("[{}: {}] expected {}, got {}", source_, name, expected, json.dump());
  }

 private:
  const Json& object_;
  std::string source_;
  std::vector<std::string> read_;
};

Metrics metrics_from_json(const Json& object, const std::string& source) {
  FieldReader reader(object, source);
  Metrics metrics;
  for (const auto& [key, value] : object.items()) {
    if (const std::optional<int64_t> number = whole_number(value)) {
      metrics[key] = *number;
    } else {
      metrics[key] = reader.number(key);
    }
  }
  return metrics;
}

TrainerControl control_from_json(const Json& object, const std::string& source) {
  FieldReader callback(object, source);
  FieldReader reader(callback.field("args"), source + ": args");
  TrainerControl control;
  control.should_epoch_stop = reader.flag("should_epoch_stop");
  control.should_evaluate = reader.flag("should_evaluate");
  control.should_log = reader.flag("should_log");
  control.should_save = reader.flag("should_save");
  control.should_training_stop = reader.flag("should_training_stop");
  reader.finish();
  return control;
}

void callbacks_from_json(const Json& object, const std::string& source, TrainerState& state) {
  if (!object.is_object())
    throw user_error("[{}] expected a JSON object, got {}", source, object.type_name());
  for (const auto& [name, value] : object.items()) {
    if (name == "TrainerControl") {
      state.control = control_from_json(value, source + ": TrainerControl");
    } else {
      state.other_callbacks[name] = format_json(value, {.indent = -1, .final_newline = false});
    }
  }
}

int64_t absolute_steps(double steps, int64_t max_steps) {
  if (steps < 1) steps = std::ceil(static_cast<double>(max_steps) * steps);
  // Where the strategy is not "steps" the number is not used, and may be anything.
  return steps > 0 ? static_cast<int64_t>(std::min(steps, kMaxSteps)) : 0;
}

bool is_multiple(int64_t step, int64_t interval) {
  return interval > 0 && step % interval == 0;
}

}  // namespace

TrainerControl& TrainerControl::operator|=(const TrainerControl& other) {
  should_epoch_stop |= other.should_epoch_stop;
  should_evaluate |= other.should_evaluate;
  should_log |= other.should_log;
  should_save |= other.should_save;
  should_training_stop |= other.should_training_stop;
  return *this;
}

void TrainerState::compute_steps(const TrainingArguments& args, int64_t run_steps) {
  logging_steps = absolute_steps(args.logging_steps, run_steps);
  if (args.eval_steps) eval_steps = absolute_steps(*args.eval_steps, run_steps);
  save_steps = absolute_steps(args.save_steps, run_steps);
}

const Metrics& TrainerState::log(Metrics entry) {
  entry["epoch"] = epoch;
  entry["step"] = global_step;
  log_history.push_back(std::move(entry));
  return log_history.back();
}

Json to_json(const TrainerState& state) {
  Json callbacks = Json::object();
  for (const auto& [name, text] : state.other_callbacks) callbacks[name] = parse_json(text, name);
  const TrainerControl& control = state.control;
  callbacks["TrainerControl"] = {{"args",
                                  {{"should_epoch_stop", control.should_epoch_stop},
                                   {"should_evaluate", control.should_evaluate},
                                   {"should_log", control.should_log},
                                   {"should_save", control.should_save},
                                   {"should_training_stop", control.should_training_stop}}},
                                 {"attributes", Json::object()}};
  Json history = Json::array();
  for (const Metrics& entry : state.log_history) history.push_back(metrics_to_json(entry));
  return {{"best_global_step", json_or_null(state.best_global_step)},
          {"best_metric", json_or_null(state.best_metric)},
          {"best_model_checkpoint", json_or_null(state.best_model_checkpoint)},
          {"epoch", state.epoch},
          {"eval_steps", state.eval_steps},
          {"global_step", state.global_step},
          {"is_hyper_param_search", state.is_hyper_param_search},
          {"is_local_process_zero", state.is_local_process_zero},
          {"is_world_process_zero", state.is_world_process_zero},
          {"log_history", history},
          {"logging_steps", state.logging_steps},
          {"max_steps", state.max_steps},
          {"num_input_tokens_seen", state.num_input_tokens_seen},
          {"num_train_epochs", state.num_train_epochs},
          {"save_steps", state.save_steps},
          {"stateful_callbacks", callbacks},
          {"total_flos", state.total_flos},
          {"train_batch_size", json_or_null(state.train_batch_size)},
          {"trial_name", json_or_null(state.trial_name)},
          {"trial_params", parse_json(state.trial_params, "trial_params")}};
}

TrainerState trainer_state_from_json(const Json& object, const std::string& source) {
  FieldReader reader(object, source);
  TrainerState state;
  state.best_global_step = reader.optional("best_global_step", &FieldReader::count);
  state.best_metric = reader.optional("best_metric", &FieldReader::number);
  state.best_model_checkpoint = reader.optional("best_model_checkpoint", &FieldReader::text);
  state.epoch = reader.number("epoch");
  state.eval_steps = reader.count("eval_steps");
  state.global_step = reader.count("global_step");
  state.is_hyper_param_search = reader.flag("is_hyper_param_search");
  state.is_local_process_zero = reader.flag("is_local_process_zero");
  state.is_world_process_zero = reader.flag("is_world_process_zero");
  state.logging_steps = reader.count("logging_steps");
  state.max_steps = reader.count("max_steps");
  state.num_input_tokens_seen = reader.count("num_input_tokens_seen");
  state.num_train_epochs = reader.count("num_train_epochs");
  state.save_steps = reader.count("save_steps");
  state.total_flos = reader.number("total_flos");
  state.train_batch_size = reader.optional("train_batch_size", &FieldReader::count);
  state.trial_name = reader.optional("trial_name", &FieldReader::text);
  state.trial_params = format_json(reader.field("trial_params"), {.indent = -1, .final_newline = false});
  const Json& history = reader.field("log_history");
  if (!history.is_array()) throw reader.wrong("log_history", "an array", history);
  for (size_t i = 0; i < history.size(); ++i) {
    state.log_history.push_back(metrics_from_json(history[i], fmt::format("{}: log_history[{}]", source, i)));
  }
  callbacks_from_json(reader.field("stateful_callbacks"), source + ": stateful_callbacks", state);
  reader.finish();
  return state;
}

void save_trainer_state(const TrainerState& state, const std::filesystem::path& path) {
  write_json_atomic(path, to_json(state));
}

TrainerState load_trainer_state(const std::filesystem::path& path) {
  return trainer_state_from_json(read_json(path), path.string());
}

void decide_after_step(const TrainingArguments& args, TrainerState& state) {
  TrainerControl& control = state.control;
  const int64_t step = state.global_step;
  const bool evaluates_by_steps =
      args.eval_strategy == "steps" && args.eval_delay <= static_cast<double>(step);
  const bool last = step >= state.max_steps;
  control.should_log = (step == 1 && args.logging_first_step) ||
                       (args.logging_strategy == "steps" && is_multiple(step, state.logging_steps));
  control.should_evaluate = evaluates_by_steps && (last || is_multiple(step, state.eval_steps));
  control.should_save = args.save_strategy == "steps" && (last || is_multiple(step, state.save_steps));
  control.should_training_stop = control.should_training_stop || last;
}

void decide_after_epoch(const TrainingArguments& args, TrainerState& state) {
  TrainerControl& control = state.control;
  control.should_log = args.logging_strategy == "epoch";
  control.should_evaluate = args.eval_strategy == "epoch" && args.eval_delay <= state.epoch;
  control.should_save = args.save_strategy == "epoch";
}

std::string full_metric_name(const std::string& metric) {
  return metric.starts_with("eval_") ? metric : "eval_" + metric;
}

double best_model_metric(const TrainingArguments& args, const Metrics& metrics) {
  const std::string name = full_metric_name(args.metric_for_best_model);
  const auto found = metrics.find(name);
  if (found == metrics.end()) {
    std::vector<std::string> names;
    for (const auto& [known, value] : metrics) names.push_back(known);
    throw user_error("[metric_for_best_model] expected one of {}, got '{}'", fmt::join(names, ", "), name);
  }
  return metric_number(found->second);
}

bool update_best_metric(const TrainingArguments& args, const Metrics& metrics, TrainerState& state) {
  if (args.metric_for_best_model.empty()) return false;
  const double value = best_model_metric(args, metrics);
  const bool greater = args.greater_is_better.value_or(grows_when_better(args.metric_for_best_model));
  const bool better =
      !state.best_metric || (greater ? value > *state.best_metric : value < *state.best_metric);
  if (std::isnan(value) || !better) return false;
  state.best_metric = value;
  state.best_global_step = state.global_step;
  return true;
}

}  // namespace shoehorn
