// Watches the steps that `bench step` times: what else the machine did meanwhile, and when the median is known.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/processors.h"
#include "lab/measured_step.h"
#include "train/trainer_callback.h"

namespace shoehorn {

struct StepWatchOptions {
  int64_t threads = 1;
  // Ends training when the median of the steps after the first is known this well (median_interval.h), or when they have
  // taken max_seconds and there are least_steps in all. Unset: training goes to its max_steps.
  std::optional<double> precision = {};
  double max_seconds = 60;
  int64_t least_steps = 4;
  // Of ranks, which take the same steps: called after each step with what this one would do; what it returns is done. Unset: alone.
  std::function<bool(bool is_over)> agree = {};
  std::function<double()> clock_seconds = {};  // unset: the steady clock
};

class StepWatch : public TrainerCallback {
 public:
  explicit StepWatch(StepWatchOptions options);

  void on_step_begin(const TrainingArguments& args, const TrainerState& state,
                     TrainerControl& control) override;
  void on_step_end(const TrainingArguments& args, const TrainerState& state,
                   TrainerControl& control) override;

  // From the end of the first step to the end of the last.
  const StepLoad& load() const { return load_; }

 private:
  StepWatchOptions options_;
  int64_t steps_ = 0;
  double step_began_ = 0;
  double timed_since_ = 0;  // the end of the first step
  ProcessorUse used_before_ = {};
  std::vector<double> samples_;
  StepLoad load_ = {};
};

}  // namespace shoehorn
