#include "lab/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

// The file in the directory, else in its newest checkpoint; empty if there is none.
std::filesystem::path find_file(const std::filesystem::path& directory, const char* name) {
  if (path_exists(directory / name)) return directory / name;
  const std::vector<std::filesystem::path> checkpoints = list_checkpoints(directory);
  for (auto checkpoint = checkpoints.rbegin(); checkpoint != checkpoints.rend(); ++checkpoint) {
    if (path_exists(*checkpoint / name)) return *checkpoint / name;
  }
  return {};
}

nlohmann::json read_object(const std::filesystem::path& path) {
  nlohmann::json object = read_json(path);
  if (!object.is_object())
    throw user_error("[{}] expected a JSON object, got {}", path.string(), object.type_name());
  return object;
}

// The directory from which the run was started, as far as its relative output_dir tells; else this process's.
fs::path start_of(const ComparedRun& run, const TrainingArguments& args) {
  std::error_code error;
  const fs::path actual = fs::weakly_canonical(run.directory, error);
  fs::path begin = actual;
  const fs::path told = fs::path(args.output_dir).lexically_normal();
  if (told.empty() || told.is_absolute()) return fs::current_path(error);
  std::vector<fs::path> parts(told.begin(), told.end());
  if (parts.back().empty()) parts.pop_back();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (begin.filename() != *part) return fs::current_path(error);
    begin = begin.parent_path();
  }
  return begin;
}

// Files by one name, also of a list with commas.
std::string same_paths(const std::string& text, const fs::path& start) {
  std::vector<std::string> paths;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const fs::path path = start / text.substr(begin, end - begin);
    std::error_code error;
    const fs::path canonical = fs::weakly_canonical(path, error);
    paths.push_back((error ? path.lexically_normal() : canonical).string());
    begin = end + 1;
  }
  return fmt::format("{}", fmt::join(paths, ","));
}

std::map<std::string, ComparedArgument> compared_arguments(const ComparedRun& run) {
  std::map<std::string, ComparedArgument> compared;
  TrainingArguments args;
  for (const auto& [name, value] : run.arguments.items()) {
    try {
      apply_json(nlohmann::json{{name, value}}, "training_args.json", args);
    } catch (const UserError&) {  // of another version, or of another program
      compared[name] = {value, value};
    }
  }
  args = resolved(std::move(args));
  const fs::path start = start_of(run, args);
  for (const ArgumentSpec& spec : argument_table()) {
    const std::string name(spec.name);
    if (spec.field.index() == 0 || compared.contains(name)) continue;
    const nlohmann::json value = argument_to_json(argument_value(spec, args));
    nlohmann::json same = value;
    if (name == "optim") same = optimizer_name(args);  // one of several names
    const bool is_path = spec.value == "FILE" || spec.value == "DIR";
    if (is_path && value.is_string() && !value.get<std::string>().empty())
      same = same_paths(value.get<std::string>(), start);
    compared[name] = {value, std::move(same)};
  }
  return compared;
}

ComparedRun read_run(const std::string& text) {
  ComparedRun run;
  run.directory = std::filesystem::path(text).lexically_normal();
  if (!run.directory.has_filename()) run.directory = run.directory.parent_path();
  if (!std::filesystem::is_directory(run.directory))
    throw user_error("[compare] expected the output directory of a run, got '{}', which is none", text);
  run.name = run.directory.filename().string();
  const std::filesystem::path state = find_file(run.directory, "trainer_state.json");
  const std::filesystem::path results = find_file(run.directory, "all_results.json");
  const std::filesystem::path arguments = find_file(run.directory, "training_args.json");
  if (state.empty() && results.empty()) {
    throw user_error(
        "[compare] expected the output directory of a run, got '{}', which has neither trainer_state.json nor "
        "all_results.json; a run writes them at its end, and the first with each checkpoint",
        text);
  }
  if (state.empty()) {
    run.missing.emplace_back("trainer_state.json");
  } else {
    run.state = load_trainer_state(state);
  }
  if (results.empty()) {
    run.missing.emplace_back("all_results.json");
  } else {
    run.results = read_object(results);
    run.results_file = results;
  }
  if (arguments.empty()) {
    run.missing.emplace_back("training_args.json");
  } else {
    run.arguments = read_object(arguments);
    run.compared_arguments = compared_arguments(run);
  }
  return run;
}

// Of what an evaluation logs, what is no metric of the model.
bool is_speed(const std::string& name) {
  return name.ends_with("_runtime") || name.ends_with("_per_second");
}

void name_apart(std::vector<ComparedRun>& runs) {
  std::map<std::string, int64_t> count;
  for (const ComparedRun& run : runs) ++count[run.name];
  for (ComparedRun& run : runs) {
    if (count.at(run.name) > 1) run.name = run.directory.string();
  }
}

}  // namespace

RunComparison read_runs(const std::vector<std::string>& directories) {
  if (directories.size() < 2)
    throw user_error("[compare] expected two or more output directories of runs, got {}", directories.size());
  RunComparison comparison;
  for (const std::string& directory : directories) comparison.runs.push_back(read_run(directory));
  name_apart(comparison.runs);
  return comparison;
}

std::optional<double> final_value(const ComparedRun& run, const std::string& metric) {
  const auto found = run.results.find(metric);
  if (found != run.results.end() && !found->is_null()) {
    if (found->is_number()) return found->get<double>();
    throw user_error("[{}] expected '{}' to be a number, got {}", run.results_file.string(), metric,
                     found->dump());
  }
  if (!run.state) return std::nullopt;
  for (auto entry = run.state->log_history.rbegin(); entry != run.state->log_history.rend(); ++entry) {
    if (const auto logged = entry->find(metric); logged != entry->end()) return metric_number(logged->second);
  }
  return std::nullopt;
}

std::vector<std::string> RunComparison::evaluation_metrics() const {
  std::set<std::string> names;
  for (const ComparedRun& run : runs) {
    for (const auto& [name, value] : run.results.items()) {
      if (name.starts_with("eval_") && value.is_number() && !is_speed(name)) names.insert(name);
    }
    if (!run.state) continue;
    for (const Metrics& entry : run.state->log_history) {
      for (const auto& [name, value] : entry) {
        if (name.starts_with("eval_") && !is_speed(name)) names.insert(name);
      }
    }
  }
  std::vector<std::string> ordered(names.begin(), names.end());
  std::stable_partition(ordered.begin(), ordered.end(), [](const auto& name) { return name == "eval_loss"; });
  return ordered;
}

std::optional<BestStep> RunComparison::best_of(const ComparedRun& run, const std::string& metric) const {
  bool is_greater_better = grows_when_better(metric);
  for (const ComparedRun& told : runs) {
    const auto value = [&](const char* name) {
      const auto found = told.compared_arguments.find(name);
      return found == told.compared_arguments.end() ? nlohmann::json() : found->second.value;
    };
    const nlohmann::json chosen = value("metric_for_best_model"), greater = value("greater_is_better");
    if (chosen.is_string() && full_metric_name(chosen.get<std::string>()) == metric && greater.is_boolean())
      is_greater_better = greater.get<bool>();
  }
  std::optional<BestStep> best;
  if (!run.state) return best;
  for (const Metrics& entry : run.state->log_history) {
    const auto found = entry.find(metric);
    if (found == entry.end() || !std::isfinite(metric_number(found->second))) continue;
    const double value = metric_number(found->second);
    if (!best || (is_greater_better ? value > best->value : value < best->value))
      best = {static_cast<int64_t>(metric_number(entry.at("step"))), value};
  }
  return best;
}

}  // namespace shoehorn
