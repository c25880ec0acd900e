// Runs a whole training with evaluation in a separate process: `shoehorn train`. A run that does not fit, is
// refused or fails is a result with a reason, not an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/measured_step.h"

namespace shoehorn {

// The numbers are set for kMeasured.
struct TrainingRun {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  int64_t seed = 0;
  double train_seconds = 0;  // steps only, without loading, planning and evaluation
  double samples_per_second = 0;
  double train_loss = 0;            // mean over the steps
  std::vector<double> step_losses;  // one per log entry; one per step if every step is logged
  double eval_loss = 0;
  double eval_accuracy = 0;
  int64_t predicted_bytes = 0;  // for the whole process
  int64_t measured_bytes = 0;
  double data_wait_share = 0;

  bool is_measured() const { return outcome == RunOutcome::kMeasured; }
};

// `words` are flags of `shoehorn train` with a validation file, without output_dir; that is `directory`,
// which is removed afterwards. `program` is this program.
TrainingRun measure_training(const std::filesystem::path& program, const std::vector<std::string>& words,
                             const std::filesystem::path& directory);

// The same result, read from a process that has ended and its output directory.
TrainingRun read_training(const FinishedProcess& finished, const std::filesystem::path& directory);

}  // namespace shoehorn
