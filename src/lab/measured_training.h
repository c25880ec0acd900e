// A whole training run and its evaluation in a process of its own: `shoehorn train` run anew. A run that does
// not fit, that is refused or that breaks down is a result with its reason, and no error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/measured_step.h"

namespace shoehorn {

// Numbers are there for kMeasured.
struct TrainingRun {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  int64_t seed = 0;
  double train_seconds = 0;  // of the steps, without loading, planning and evaluation
  double samples_per_second = 0;
  double train_loss = 0;            // mean over the steps
  std::vector<double> step_losses;  // of each log entry in order; a step each where it logs every step
  double eval_loss = 0;
  double eval_accuracy = 0;
  int64_t predicted_bytes = 0;  // of the whole process
  int64_t measured_bytes = 0;
  double data_wait_share = 0;

  bool is_measured() const { return outcome == RunOutcome::kMeasured; }
};

// `words` are flags of `shoehorn train` with a validation file and without output_dir, which is `directory`
// and is removed again; `program` is this program.
TrainingRun measure_training(const std::filesystem::path& program, const std::vector<std::string>& words,
                             const std::filesystem::path& directory);

// The same from a process that has ended and the directory that it wrote.
TrainingRun read_training(const FinishedProcess& finished, const std::filesystem::path& directory);

}  // namespace shoehorn
