// shoehorn_state.json of a checkpoint: what a resumed run needs besides weights, optimizer states and
// trainer_state.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "optim/reduce_lr_on_plateau.h"
#include "passes/loss_scale.h"
#include "state/run_identity.h"
#include "state/trainer_state.h"

namespace shoehorn {

// The position of a run between two optimizer steps, and in what is done between them.
struct RunPosition {
  int64_t applied_updates = 0;
  int64_t skipped_steps = 0;  // float16: steps whose update was skipped
  int64_t samples_consumed = 0;
  // Running sums for the next log entry and for train_loss.
  double loss_since_log = 0;
  int64_t last_logged_step = 0;
  double loss_total = 0;
  int64_t nonfinite_losses = 0;
  std::optional<PlateauState> plateau = {};  // of reduce_lr_on_plateau
  // What was decided after the last step, if a stop came before or in the evaluation that was due: a resumed run does
  // it first.
  std::optional<TrainerControl> due = {};
  // Whether the end of the epoch (events, and what is due then) came after the last step. Only where it is the epoch's
  // last, or the run's.
  bool is_epoch_ended = true;
  // Steps of the schedule that were left out where a callback ended an epoch.
  int64_t skipped_in_epochs = 0;
};

struct ResumeState {
  RunIdentity identity;  // members that an older checkpoint lacks are empty
  RunPosition position;
  std::optional<LossScaleValues> loss_scale = {};  // of a float16 run
};

nlohmann::json to_json(const ResumeState& state);

// UserError "[`source`: key] …" if a key is missing or has another type. Counts are 0 or more.
ResumeState resume_state_from_json(const nlohmann::json& object, const std::string& source);

}  // namespace shoehorn
