// Computes how many steps a training run has, as the Hugging Face Trainer does (transformers 5.23,
// Trainer.set_initial_training_values). Logs and checkpoints count in these numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "data/window_schedule.h"

namespace shoehorn {

struct TrainingStepsOptions {
  int64_t samples = 0;
  int64_t micro_batch_size = 8;  // per_device_train_batch_size
  int64_t gradient_accumulation_steps = 1;
  bool drop_last = false;            // dataloader_drop_last: an incomplete micro-batch is left out
  std::vector<RampStage> ramp = {};  // a batch that grows over training: window_schedule.h
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;  // above 0 it overrides num_train_epochs
};

struct TrainingSteps {
  int64_t micro_batches_per_epoch;  // the length of the data loader
  int64_t update_steps_per_epoch;   // of the first epoch; rounded up, since the last window may be short
  int64_t max_steps;                // optimizer steps of the whole run
  int64_t num_train_epochs;         // epochs begun; max_steps may cut off the last one
  double num_train_samples;         // what train_samples_per_second divides by the run time
};

// UserError: no samples, a size below 1, drop_last with fewer samples than a micro-batch, or nothing to
// train.
TrainingSteps training_steps(const TrainingStepsOptions& options);

}  // namespace shoehorn
