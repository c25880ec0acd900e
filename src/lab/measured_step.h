// Plans and measures a setting of the training step in separate processes: this program, or the Hugging Face
// Trainer. A setting that does not fit, is not supported or fails is a result with a reason, not an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "lab/median_interval.h"

namespace shoehorn {

enum class RunOutcome : uint8_t {
  kMeasured,
  kDoesNotFit,        // refused by its plan
  kNotInThisVersion,  // a flag is not supported in this version
  kRefused,           // a flag was refused for another reason, such as a conflict
  kFailed,            // anything else
};

// "measured", "does not fit", "not in this version", "refused", "failed".
std::string outcome_text(RunOutcome outcome);

// Bytes of the whole process at the three stages that the guides report.
struct MemoryStages {
  int64_t process_bytes = 0;       // program, libraries and data
  int64_t with_weights_bytes = 0;  // the same with weights
  int64_t training_bytes = 0;      // peak of training
};

// The result of `shoehorn plan`. The bytes are set for kMeasured (here: it fits) and kDoesNotFit.
struct StepPlan {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  int64_t peak_bytes = 0;
  int64_t budget_bytes = 0;
  int64_t weight_bytes = 0;
  std::string program;  // a hash of the programs of the step: settings that have one hash are one program
};

// What else the machine did while a process was timed.
struct StepLoad {
  double average_before = 0;  // /proc/loadavg, one minute, before the first step and after the last
  double average_after = 0;
  int64_t involuntary_switches = 0;  // times that a thread had to leave its processor to others
  double cpu_share = 0;  // processor time ÷ (wall time × threads): 1 if the threads had all of theirs
};

// The measurements of one process, or of several of one setting. The numbers are set for kMeasured.
struct StepRun {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  double samples_per_second = 0;
  double tokens_per_second = 0;  // ours
  double step_seconds = 0;
  double first_step_seconds = 0;  // from the start of the process to the end of step 1
  MemoryStages memory;
  int64_t predicted_bytes = 0;       // ours: for the whole process
  std::string program;               // ours: as in StepPlan
  std::string ran;                   // theirs: the type it multiplied in, and why if another was requested
  std::vector<double> step_samples;  // seconds of every step that counts, in order; of all processes
  std::vector<StepLoad> loads;       // of each process

  bool is_measured() const { return outcome == RunOutcome::kMeasured; }
};

// The result of a run that was not started because its plan forbids it.
StepRun forbidden_run(const StepPlan& plan);

// `words` are flags of `shoehorn bench step`; `program` is this program. `launch`: of ranks, what starts them (`launch` and its
// flags).
StepPlan plan_step(const std::filesystem::path& program, const std::vector<std::string>& words);
StepRun measure_step(const std::filesystem::path& program, const std::vector<std::string>& words,
                     const StepPlan& plan, const std::vector<std::string>& launch = {});
// `words` are flags of bench/peers/train_step.py, which is `script`.
StepRun measure_peer_step(const std::filesystem::path& python, const std::filesystem::path& script,
                          const std::vector<std::string>& words);

// Why a process measured nothing: never kMeasured.
struct RunFailure {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
};
RunFailure failure_of(const FinishedProcess& finished);

// Runs words[0], which is this program, so that it reports errors in the form that failure_of() reads.
FinishedProcess run_shoehorn(const std::vector<std::string>& words);

// The same results, read from a process that has ended.
StepPlan read_plan(const FinishedProcess& finished);
StepRun read_step(const FinishedProcess& finished, const StepPlan& plan);
StepRun read_peer_step(const FinishedProcess& finished);

// The runs of a setting as one: the median over the steps of all processes, and over processes where a process has one
// number; or, if one was not measured, that run with its reason. `runs` is not empty.
StepRun pooled_run(const std::vector<StepRun>& runs);

// Of a measured run: how well its median is known. A run without samples has its median as the only one.
MedianInterval interval_of(const StepRun& run);

// "4.2–5.3 samples/s in 10 steps of 2 processes", and whether the median is known as well as `precision` asks.
std::string describe_spread(const StepRun& run, double precision);

// "median of the steps after the first of each process": how a figure was made.
std::string counted_steps(int64_t steps);

// A run as JSON: outcome, reason, numbers.
nlohmann::ordered_json to_json(const StepRun& run);

}  // namespace shoehorn
