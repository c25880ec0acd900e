// `compare` (docs/reports.md): runs laid over each other, from the files that training leaves in their output directories.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "state/trainer_state.h"

namespace shoehorn {

struct ComparedRun {
  std::string name;  // the directory's, or its whole path where two have the same
  std::filesystem::path directory;
  // Of the directory, or where it has none, of its newest checkpoint: a run that goes on has only that.
  std::optional<TrainerState> state;                  // trainer_state.json
  nlohmann::json results = nlohmann::json::object();  // all_results.json
  std::filesystem::path results_file = {};            // where that is; empty: nowhere
  nlohmann::json arguments = {};                      // training_args.json; null: none
  std::vector<std::string> missing = {};              // names of files that are not there
};

struct BestStep {
  std::string metric;
  int64_t step = 0;
  double value = 0;
};

struct RunComparison {
  std::vector<ComparedRun> runs;  // two or more

  // The evaluation with the highest accuracy, or where no run has accuracies, with the lowest loss.
  std::optional<BestStep> best_of(const ComparedRun& run) const;
  // The names of the metrics that evaluations of any run have, without runtime and speed; eval_loss first.
  std::vector<std::string> evaluation_metrics() const;
};

// UserError where a directory has neither log nor results, or a file is malformed.
RunComparison read_runs(const std::vector<std::string>& directories);

// The value of a metric at the end of a run: of its results, else of its last log entry that has it. UserError for a result
// that is no number.
std::optional<double> final_value(const ComparedRun& run, const std::string& metric);

}  // namespace shoehorn
