#include "lab/step_watch.h"

#include "analysis/step_profile.h"
#include "lab/median_interval.h"

namespace shoehorn {

namespace {

double load_average() {
  const std::optional<MachineLoad> load = machine_load();
  return load ? load->average : 0;
}

}  // namespace

StepWatch::StepWatch(StepWatchOptions options) : options_(std::move(options)) {
  if (!options_.clock_seconds) options_.clock_seconds = now_seconds;
}

void StepWatch::on_step_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) {
  step_began_ = options_.clock_seconds();
}

void StepWatch::on_step_end(const TrainingArguments&, const TrainerState&, TrainerControl& control) {
  const double now = options_.clock_seconds();
  const ProcessorUse used = processor_use();
  ++steps_;
  if (steps_ == 1) {  // it meets cold caches
    timed_since_ = now;
    used_before_ = used;
    load_.average_before = load_average();
    return;
  }
  samples_.push_back(now - step_began_);
  load_.average_after = load_average();
  load_.involuntary_switches = used.involuntary_switches - used_before_.involuntary_switches;
  const double seconds = now - timed_since_;
  if (seconds > 0)
    load_.cpu_share =
        (used.cpu_seconds - used_before_.cpu_seconds) / (seconds * static_cast<double>(options_.threads));
  if (!options_.precision) return;
  const bool is_stable = median_interval(samples_).is_stable(*options_.precision);
  const bool is_late = seconds >= options_.max_seconds && steps_ >= options_.least_steps;
  const bool is_over = is_stable || is_late;
  if (options_.agree ? options_.agree(is_over) : is_over) control.should_training_stop = true;
}

}  // namespace shoehorn
