// Ends a run early, whose learning rates stay those of all its steps.
#pragma once

#include "train/trainer_callback.h"

namespace shoehorn::test_support {

class StopAfter : public TrainerCallback {
 public:
  explicit StopAfter(int64_t steps) : steps_(steps) {}
  void on_step_end(const TrainingArguments&, const TrainerState& state, TrainerControl& control) override {
    control.should_training_stop |= state.global_step == steps_;
  }

 private:
  int64_t steps_;
};

}  // namespace shoehorn::test_support
