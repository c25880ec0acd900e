// How many steps a training run has: the arithmetic of the Hugging Face Trainer (transformers 5.23,
// Trainer.set_initial_training_values), whose logs and checkpoints count in these numbers.
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
  std::vector<RampStage> ramp = {};  // a batch that grows: window_schedule.h
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;  // above 0 it overrides num_train_epochs
};

struct TrainingSteps {
  int64_t micro_batches_per_epoch;  // the length of the data loader
  int64_t update_steps_per_epoch;  // rounded up: the last window of an epoch may be short; of the first epoch
  int64_t max_steps;               // optimizer steps of the whole run
  int64_t num_train_epochs;        // epochs begun: the last one may be cut off by max_steps
  double num_train_samples;        // what train_samples_per_second divides by the run time
};

// UserError: no samples, a size below 1, drop_last with fewer samples than a micro-batch, nothing to train.
TrainingSteps training_steps(const TrainingStepsOptions& options);

}  // namespace shoehorn
