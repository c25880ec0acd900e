// --report_to html: a run on one page.
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

// Samples a second of the steps since the log entry before, without evaluation and checkpoints.
struct Throughput {
  int64_t step;
  double samples_per_second;
};

struct RunView {
  const TrainingArguments& arguments;
  const TrainerState& state;
  const Session& session;
  const MemoryForecast& forecast;
  const Metrics& metrics;  // of the end of training; empty: it goes on, or was interrupted
  std::span<const Throughput> throughput;
  const StepProfile* profile = nullptr;  // null: none
};

// Loss, learning rate, gradient norm, throughput, evaluation; the memory of the step as planned, predicted
// against measured; arguments that differ from their defaults, passes, time by op.
std::string html_report(const RunView& run);

}  // namespace shoehorn
