// `compare` (docs/reports.md): runs laid over each other, from the files that training leaves in their output directories.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "state/trainer_state.h"

namespace shoehorn {

struct ComparedArgument {
  nlohmann::json value;     // shown
  nlohmann::json compared;  // of two runs equal where the argument has one meaning
};

struct ComparedRun {
  std::string name;  // the directory's, or its whole path where two have the same
  std::filesystem::path directory;
  // Of the directory, or where it has none, of its newest checkpoint: a run that goes on has only that.
  std::optional<TrainerState> state;                  // trainer_state.json
  nlohmann::json results = nlohmann::json::object();  // all_results.json
  std::filesystem::path results_file = {};            // where that is; empty: nowhere
  nlohmann::json arguments = {};                      // training_args.json; null: none
  // All arguments of the run: those of the file in one spelling, the others by default. What the table does not know is as
  // it was written. Empty without the file.
  std::map<std::string, ComparedArgument> compared_arguments = {};
  std::vector<std::string> missing = {};  // names of files that are not there
};

struct BestStep {
  int64_t step = 0;
  double value = 0;
};

struct RunComparison {
  std::vector<ComparedRun> runs;  // two or more

  // The run's evaluation with the best value of the metric, lowest or highest: as a run was told that chooses its best model
  // by it, else as is usual of the metric. nullopt: its log has none.
  std::optional<BestStep> best_of(const ComparedRun& run, const std::string& metric) const;
  // The names of the metrics that evaluations of any run have, without runtime and speed; eval_loss first.
  std::vector<std::string> evaluation_metrics() const;
};

// UserError where a directory has neither log nor results, or a file is malformed.
RunComparison read_runs(const std::vector<std::string>& directories);

// The value of a metric at the end of a run: of its results, else of its last log entry that has it. UserError for a result
// that is no number.
std::optional<double> final_value(const ComparedRun& run, const std::string& metric);

}  // namespace shoehorn
