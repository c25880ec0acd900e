// A notice, once in a run, that other programs want the processors that the run's threads want: when training begins,
// or when steps take twice as long as at first.
//
// Steps may take longer for reasons that are no load (longer samples, a disk). So the slower steps alone say nothing:
// the machine must have more tasks that want to run than it has processors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/processors.h"
#include "train/trainer_callback.h"

namespace shoehorn {

struct LoadNoticeOptions {
  int64_t threads = 1;      // of each of the run's processes
  int64_t local_ranks = 1;  // the run's processes on this machine
  int64_t processors = 1;   // of the machine
  // False if steps differ in their work by design (batch_size_ramp): then only the start is looked at.
  bool steps_are_alike = true;
  std::function<void(const std::string& line)> on_line = {};
  std::function<std::optional<MachineLoad>()> load = {};  // unset: machine_load()
  std::function<double()> clock_seconds = {};             // unset: the steady clock
};

class LoadNotice : public TrainerCallback {
 public:
  explicit LoadNotice(LoadNoticeOptions options);

  void on_train_begin(const TrainingArguments& args, const TrainerState& state,
                      TrainerControl& control) override;
  void on_step_begin(const TrainingArguments& args, const TrainerState& state,
                     TrainerControl& control) override;
  void on_step_end(const TrainingArguments& args, const TrainerState& state,
                   TrainerControl& control) override;

 private:
  int64_t own_threads() const { return options_.local_ranks * options_.threads; }
  // Tasks of others that want to run now, the fewest of several looks; 0 if that is not known.
  int64_t others_running() const;
  bool is_overloaded(int64_t others) const;
  void say(const std::string& what, int64_t others);

  LoadNoticeOptions options_;
  bool is_said_ = false;
  bool is_first_step_done_ = false;
  double step_began_ = 0;
  double usual_seconds_ = 0;            // a step's, as at first
  std::vector<double> recent_seconds_;  // of the steps since the last comparison
};

// How many of the others' tasks want to run on average: the smaller of the minute's average and of what runs now. The
// average alone may count what has ended, and one look alone what runs for a moment.
int64_t others_in(const MachineLoad& load);

}  // namespace shoehorn
