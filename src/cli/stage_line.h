// Says on a terminal what a command is at, where it would else be silent: measuring the machine, a search.
#pragma once

#include <string>

#include "arguments/training_arguments.h"
#include "exec/backend/backend.h"
#include "train/progress.h"

namespace shoehorn {

// A line on standard error that is there while the object lives. Nothing without a terminal, or where `args` leave bars out.
class StageLine {
 public:
  StageLine(const std::string& what, const TrainingArguments& args);
  ~StageLine();
  StageLine(const StageLine&) = delete;
  StageLine& operator=(const StageLine&) = delete;

 private:
  ProgressOptions options_;
};

// The bar of steps that are run to be measured: appears after two seconds and vanishes; without log lines.
ProgressOptions measured_steps_progress(const TrainingArguments& args);

// measure_limits() of the backend, which takes seconds.
MachineLimits silently_measured_limits(const Backend& backend, const TrainingArguments& args);
// The same, with a notice on standard error where other processes were in its way.
MachineLimits measured_limits(const Backend& backend, const TrainingArguments& args);

}  // namespace shoehorn
