#include "lab/run_comparison_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/format.h"
#include "io/json_file.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

struct ResultRow {
  const char* metric;
  const char* title;
  Unit unit;
};

// Results of training, behind those of evaluations.
constexpr ResultRow kTrainingRows[] = {
    {"train_loss", "training loss", Unit::kNumber},
    {"train_runtime", "training time", Unit::kSeconds},
    {"train_samples_per_second", "samples a second", Unit::kNumber},
    {"train_data_wait_share", "waiting for data", Unit::kShare},
    {"memory_process_measured_bytes", "peak of the process", Unit::kBytes},
    {"memory_process_predicted_bytes", "predicted peak", Unit::kBytes},
    {"memory_arena_measured_bytes", "arenas", Unit::kBytes},
};

// Where a run writes, what it is called and how it was gone on with: of no effect on its results.
bool is_place(const std::string& argument) {
  static const std::set<std::string> kPlaces = {"output_dir", "logging_dir", "run_name",
                                                "overwrite_output_dir", "resume_from_checkpoint"};
  return kPlaces.contains(argument);
}

std::string argument_text(const ComparedRun& run, const std::string& name) {
  if (run.arguments.is_null()) return "not known";
  const auto found = run.compared_arguments.find(name);
  if (found == run.compared_arguments.end() || found->second.value.is_null()) return kNothing;
  const nlohmann::json& value = found->second.value;
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());  // 20 of 20.0
  if (!value.is_string()) return format_json(value, {.indent = -1, .final_newline = false});
  const std::string text = value.get<std::string>();
  return text.empty() ? kNothing : text;
}

std::vector<TextColumn> columns_of(const RunComparison& comparison, const char* title, bool is_number) {
  std::vector<TextColumn> columns = {{title}};
  for (const ComparedRun& run : comparison.runs) columns.push_back({run.name, is_number});
  return columns;
}

// A row with what `cell` says of each run, unless it says nothing of any.
template <typename Cell>
void add_row(TextTable& table, const RunComparison& comparison, std::string title, const Cell& cell) {
  std::vector<std::string> row = {std::move(title)};
  for (const ComparedRun& run : comparison.runs) row.push_back(cell(run));
  if (std::any_of(row.begin() + 1, row.end(), [](const std::string& text) { return text != kNothing; }))
    table.rows.push_back(std::move(row));
}

// By name, of the runs whose arguments are known; an argument that one of two programs does not have is null there.
std::set<std::string> differing_arguments(const RunComparison& comparison) {
  std::set<std::string> names;
  const ComparedRun* first = nullptr;
  const auto compared = [](const ComparedRun& run, const std::string& name) {
    const auto found = run.compared_arguments.find(name);
    return found == run.compared_arguments.end() ? nlohmann::json() : found->second.compared;
  };
  for (const ComparedRun& run : comparison.runs) {
    if (run.arguments.is_null()) continue;
    if (first == nullptr) first = &run;
    for (const ComparedRun* one : {first, &run}) {
      for (const auto& [name, value] : one->compared_arguments) {
        if (!is_place(name) && compared(*first, name) != compared(run, name)) names.insert(name);
      }
    }
  }
  return names;
}

std::vector<std::string> names_of_runs(const RunComparison& comparison, bool with_arguments) {
  std::vector<std::string> names;
  for (const ComparedRun& run : comparison.runs) {
    if (run.arguments.is_null() != with_arguments) names.push_back(run.name);
  }
  return names;
}

// More than one value: else the best is the last.
bool has_several(const ComparedRun& run, const std::string& metric) {
  return run.state && std::count_if(run.state->log_history.begin(), run.state->log_history.end(),
                                    [&](const Metrics& entry) { return entry.contains(metric); }) > 1;
}

}  // namespace

TextTable comparison_results(const RunComparison& comparison) {
  TextTable table{.columns = columns_of(comparison, "result", true)};
  add_row(table, comparison, "steps", [](const ComparedRun& run) -> std::string {
    if (!run.state) return kNothing;
    const std::string done = format_count(run.state->global_step);
    if (run.state->global_step >= run.state->max_steps) return done;
    return fmt::format("{} of {}", done, format_count(run.state->max_steps));
  });
  const auto add = [&](const std::string& title, const std::string& metric, Unit unit) {
    add_row(table, comparison, title, [&](const ComparedRun& run) -> std::string {
      const std::optional<double> value = final_value(run, metric);
      return value ? format_value(*value, unit) : kNothing;
    });
  };
  for (const std::string& metric : comparison.evaluation_metrics()) {
    add(metric, metric, Unit::kNumber);
    if (std::none_of(comparison.runs.begin(), comparison.runs.end(),
                     [&](const ComparedRun& run) { return has_several(run, metric); }))
      continue;
    add_row(table, comparison, metric + ", best", [&](const ComparedRun& run) -> std::string {
      const std::optional<BestStep> best = comparison.best_of(run, metric);
      return best ? fmt::format("{} at step {}", format_value(best->value, Unit::kNumber),
                                format_count(best->step))
                  : kNothing;
    });
  }
  for (const ResultRow& row : kTrainingRows) add(row.title, row.metric, row.unit);
  return table;
}

TextTable comparison_arguments(const RunComparison& comparison) {
  TextTable table{.columns = columns_of(comparison, "argument", false)};
  for (const std::string& name : differing_arguments(comparison))
    add_row(table, comparison, name, [&name](const ComparedRun& run) { return argument_text(run, name); });
  return table;
}

std::vector<std::string> comparison_remarks(const RunComparison& comparison) {
  std::vector<std::string> lines;
  for (const ComparedRun& run : comparison.runs) {
    for (const std::string& name : run.missing) {
      const char* what = name == "trainer_state.json" ? "no curves"
                         : name == "all_results.json" ? "only what its log has"
                                                      : "its arguments are not compared";
      lines.push_back(fmt::format("{} has no {}: {}", run.name, name, what));
    }
  }
  return lines;
}

std::string no_difference_text(const RunComparison& comparison) {
  const std::vector<std::string> known = names_of_runs(comparison, true);
  const std::vector<std::string> unknown = names_of_runs(comparison, false);
  if (unknown.empty()) return "No argument differs, apart from where the runs write.";
  if (known.size() < 2)
    return fmt::format("Arguments are not compared: those of {} are not known.", fmt::join(unknown, ", "));
  return fmt::format("No argument of {} differs, apart from where the runs write; those of {} are not known.",
                     fmt::join(known, ", "), fmt::join(unknown, ", "));
}

std::string format_comparison(const RunComparison& comparison) {
  std::string text = format_table(comparison_results(comparison));
  const TextTable arguments = comparison_arguments(comparison);
  text += arguments.rows.empty() ? no_difference_text(comparison) + "\n"
                                 : "Arguments that differ\n" + format_table(arguments);
  for (const std::string& line : comparison_remarks(comparison)) text += line + "\n";
  return text;
}

nlohmann::ordered_json to_json(const RunComparison& comparison) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const ComparedRun& run : comparison.runs) {
    nlohmann::ordered_json entry = {{"name", run.name}, {"directory", run.directory.string()}};
    if (run.state) {
      entry["global_step"] = run.state->global_step;
      entry["max_steps"] = run.state->max_steps;
    }
    nlohmann::ordered_json best = nlohmann::ordered_json::object();
    for (const std::string& metric : comparison.evaluation_metrics()) {
      if (const std::optional<BestStep> step = comparison.best_of(run, metric))
        best[metric] = {{"step", step->step}, {"value", step->value}};
    }
    entry["best"] = std::move(best);
    nlohmann::ordered_json results = nlohmann::ordered_json::object();
    for (const auto& [name, value] : run.results.items()) results[name] = value;
    for (const std::string& metric : comparison.evaluation_metrics()) {
      if (const std::optional<double> value = final_value(run, metric); value && !results.contains(metric))
        results[metric] = *value;
    }
    entry["results"] = std::move(results);
    entry["missing"] = run.missing;
    runs.push_back(std::move(entry));
  }
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  for (const std::string& name : differing_arguments(comparison)) {
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const ComparedRun& run : comparison.runs) {
      const auto found = run.compared_arguments.find(name);
      values.push_back(found == run.compared_arguments.end() ? nlohmann::ordered_json()
                                                             : nlohmann::ordered_json(found->second.value));
    }
    arguments[name] = std::move(values);
  }
  return {{"runs", std::move(runs)}, {"differing_arguments", std::move(arguments)}};
}

}  // namespace shoehorn
