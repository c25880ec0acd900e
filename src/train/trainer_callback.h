// Callbacks of a training run, as in transformers: a program's own code at the events of the loop.
//
//   class StopAtLoss : public TrainerCallback {
//     void on_log(const TrainingArguments&, const TrainerState&, TrainerControl& control,
//                 const Metrics& logs) override {
//       const auto loss = logs.find("loss");
//       if (loss != logs.end() && metric_number(loss->second) < 0.1) control.should_training_stop = true;
//     }
//   };
//   trainer.add_callback(std::make_shared<StopAtLoss>());
//
// Each event gets the arguments, the state and the control. The control is what the loop does next:
// should_training_stop and should_epoch_stop end the loop after the current step; should_log, should_evaluate and
// should_save ask for a log entry, an evaluation and a checkpoint. The last three begin as false with each step; the
// trainer's own decisions (logging_steps, …) are made first.
//
// The order of a step is that of the Trainer: on_step_begin, the step, on_step_end; then what is due: on_log,
// on_evaluate, on_save. A step is one program here: nothing is called inside it (on_substep_end,
// on_pre_optimizer_step and on_optimizer_step do not exist). A step that a signal gave up (base/stop_request.h) is
// taken anew by the resumed run, on_step_begin included.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/score.h"
#include "state/trainer_state.h"

namespace shoehorn {

// What a callback keeps in checkpoints: trainer_state.json, stateful_callbacks.
struct CallbackState {
  Kwargs args;        // how it was set up
  Kwargs attributes;  // what it counted

  bool operator==(const CallbackState&) const = default;
};

class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;

  // When train() begins, before the first evaluation and step; the state is that of the checkpoint if it resumes.
  virtual void on_train_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  // When train() ends, also if a signal stopped it; not if it throws.
  virtual void on_train_end(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  virtual void on_epoch_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  virtual void on_epoch_end(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  virtual void on_step_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  virtual void on_step_end(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  // After an evaluation, also one that the program asked for (Trainer::evaluate); during training before it counts for
  // the best model. The metrics have their names with "eval_".
  virtual void on_evaluate(const TrainingArguments&, const TrainerState&, TrainerControl&, const Metrics&) {}
  // After each batch of an evaluation or a prediction.
  virtual void on_prediction_step(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  // After Trainer::predict.
  virtual void on_predict(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  // After a checkpoint that was due.
  virtual void on_save(const TrainingArguments&, const TrainerState&, TrainerControl&) {}
  // After a log entry: losses, an evaluation, the results at the end.
  virtual void on_log(const TrainingArguments&, const TrainerState&, TrainerControl&, const Metrics&) {}

  // For a callback that counts: the name under which checkpoints have its state (the name of its class), and the state.
  // A resumed run gives it back before on_train_begin. Empty: nothing is kept.
  virtual std::string state_name() const { return {}; }
  virtual CallbackState state() const { return {}; }
  // UserError naming `source` for what the callback cannot have written.
  virtual void restore(const CallbackState& state, const std::string& source);
};

// The callbacks of a trainer. Events reach them in the order in which they were added.
class CallbackList {
 public:
  void add(std::shared_ptr<TrainerCallback> callback) { callbacks_.push_back(std::move(callback)); }

  // Calls call(callback) for each.
  template <typename Call>
  void each(const Call& call) const {
    for (const std::shared_ptr<TrainerCallback>& callback : callbacks_) call(*callback);
  }

  // Puts the callbacks' states into those that `state` passes on to trainer_state.json. As in transformers the states
  // of several callbacks of a name are a list.
  void keep_states(TrainerState& state) const;
  // Gives the callbacks what a checkpoint has for them. UserError naming `source`.
  void restore_states(const TrainerState& state, const std::string& source) const;

 private:
  std::map<std::string, std::vector<TrainerCallback*>> stateful() const;

  std::vector<std::shared_ptr<TrainerCallback>> callbacks_;
};

}  // namespace shoehorn
