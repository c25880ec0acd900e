// --report_to html: the report of a run on one page.
#pragma once

#include <span>
#include <string>

#include "analysis/step_profile.h"
#include "arguments/training_arguments.h"
#include "model/score.h"
#include "session/memory_forecast.h"
#include "session/session.h"
#include "state/trainer_state.h"

namespace shoehorn {

// Samples per second of the steps since the previous log entry, without evaluation and checkpoints.
struct Throughput {
  int64_t step;
  double samples_per_second;
};

enum class RunStatus : uint8_t { kRunning, kEnded, kStopped, kFailed };

struct RunView {
  const TrainingArguments& arguments;
  const TrainerState& state;
  const Session& session;
  const MemoryForecast& forecast;
  const Metrics& metrics;  // at the end of training; empty: the run goes on or was interrupted
  std::span<const Throughput> throughput;
  RunStatus status = RunStatus::kEnded;
  std::string end_reason = {};               // why it ended before its last step; may be empty
  double step_seconds = 0;                   // mean of the steps so far; 0: none yet
  const StepProfile* profile = nullptr;      // null: no profile
  const ScoreDetails* evaluation = nullptr;  // of the last evaluation; null: there was none
};

// The page of a run that goes on loads itself anew every few seconds. Shows how far the run is, its accuracy (or what the
// task has) and its best evaluation; loss, learning rate, gradient norm, throughput and evaluations, and of the last one
// its classes; the planned memory of the step, and
// predicted against measured; the arguments that differ from their defaults, the passes, and time by op.
std::string html_report(const RunView& run);

}  // namespace shoehorn
