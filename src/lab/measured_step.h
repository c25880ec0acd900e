// A setting of the training step, planned and measured in processes of its own: this program run anew, or the
// Hugging Face Trainer. A setting that does not fit, that this version lacks or that breaks down is a result
// with its reason, and no error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace shoehorn {

enum class RunOutcome : uint8_t {
  kMeasured,
  kDoesNotFit,        // refused by the plan
  kNotInThisVersion,  // a flag was refused: this version lacks it
  kRefused,           // a flag was refused for another reason: it contradicts another
  kFailed,            // anything else
};

// "measured", "does not fit", "not in this version", "refused", "failed".
std::string outcome_text(RunOutcome outcome);

// Bytes of the whole process at the three stages at which the guides look at it.
struct MemoryStages {
  int64_t process_bytes = 0;       // the program, its libraries, its data
  int64_t with_weights_bytes = 0;  // and the weights
  int64_t training_bytes = 0;      // at the peak of training
};

// What `shoehorn plan` says; bytes are there for kMeasured, which means "fits", and for kDoesNotFit.
struct StepPlan {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  int64_t peak_bytes = 0;
  int64_t budget_bytes = 0;
  int64_t weight_bytes = 0;
};

// What one process measured; numbers are there for kMeasured.
struct StepRun {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  double samples_per_second = 0;
  double step_seconds = 0;
  double first_step_seconds = 0;  // from the start of the process to the end of its first step
  MemoryStages memory;
  int64_t predicted_bytes = 0;  // ours: of the whole process
  std::string ran;              // theirs: the type that it multiplied in, and why if another was asked for

  bool is_measured() const { return outcome == RunOutcome::kMeasured; }
};

// A plan that forbids the run, as the run that it forbids.
StepRun forbidden_run(const StepPlan& plan);

// `words` are flags of `shoehorn bench step`; `program` is this program.
StepPlan plan_step(const std::filesystem::path& program, const std::vector<std::string>& words);
StepRun measure_step(const std::filesystem::path& program, const std::vector<std::string>& words,
                     const StepPlan& plan);
// `words` are flags of bench/peers/train_step.py, which is `script`.
StepRun measure_peer_step(const std::filesystem::path& python, const std::filesystem::path& script,
                          const std::vector<std::string>& words);

// What became of a process that measured nothing: never kMeasured.
struct RunFailure {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
};
RunFailure failure_of(const FinishedProcess& finished);

// Runs words[0], which is this program; it reports an error as failure_of() reads it.
FinishedProcess run_shoehorn(const std::vector<std::string>& words);

// The same from a process that has ended.
StepPlan read_plan(const FinishedProcess& finished);
StepRun read_step(const FinishedProcess& finished, const StepPlan& plan);
StepRun read_peer_step(const FinishedProcess& finished);

// Medians of what was measured; if a run was not, that run, for its reason. There is at least one.
StepRun median_run(const std::vector<StepRun>& runs);

// "median of 2 steps, median of 3 processes": what figures of `steps` steps, the first not counted, are.
std::string counted(int64_t steps, int64_t processes);

// A run as JSON: outcome, reason, numbers.
nlohmann::ordered_json to_json(const StepRun& run);

}  // namespace shoehorn
