#include "lab/run_comparison_text.h"

#include <fmt/format.h>

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
  const auto found = run.arguments.find(name);
  if (found == run.arguments.end() || found->is_null()) return kNothing;
  if (found->is_number_float()) return fmt::format("{}", found->get<double>());  // 20 of 20.0
  if (!found->is_string()) return format_json(*found, {.indent = -1, .final_newline = false});
  const std::string text = found->get<std::string>();
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

std::set<std::string> differing_arguments(const RunComparison& comparison) {
  std::set<std::string> names;
  const nlohmann::json* first = nullptr;
  for (const ComparedRun& run : comparison.runs) {
    if (run.arguments.is_null()) continue;
    if (first == nullptr) first = &run.arguments;
    for (const auto* object : {first, &run.arguments}) {
      for (const auto& [name, value] : object->items()) {
        if (!is_place(name) &&
            first->value(name, nlohmann::json()) != run.arguments.value(name, nlohmann::json()))
          names.insert(name);
      }
    }
  }
  return names;
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
  for (const std::string& metric : comparison.evaluation_metrics()) add(metric, metric, Unit::kNumber);
  std::string best_title = "best step";
  for (const ComparedRun& run : comparison.runs) {
    if (const std::optional<BestStep> best = comparison.best_of(run))
      best_title = "best step by " + best->metric;
  }
  add_row(table, comparison, best_title, [&](const ComparedRun& run) -> std::string {
    const std::optional<BestStep> best = comparison.best_of(run);
    return best ? fmt::format("{}: {}", format_count(best->step), format_value(best->value, Unit::kNumber))
                : kNothing;
  });
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

std::string format_comparison(const RunComparison& comparison) {
  std::string text = format_table(comparison_results(comparison));
  const TextTable arguments = comparison_arguments(comparison);
  text +=
      arguments.rows.empty() ? "No argument differs.\n" : "Arguments that differ\n" + format_table(arguments);
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
    if (const std::optional<BestStep> best = comparison.best_of(run))
      entry["best"] = {{"metric", best->metric}, {"step", best->step}, {"value", best->value}};
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
      const auto found = run.arguments.find(name);
      values.push_back(found == run.arguments.end() ? nlohmann::ordered_json()
                                                    : nlohmann::ordered_json(*found));
    }
    arguments[name] = std::move(values);
  }
  return {{"runs", std::move(runs)}, {"differing_arguments", std::move(arguments)}};
}

}  // namespace shoehorn
