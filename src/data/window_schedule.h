// Says which micro-batches make up each effective batch (window) of a run. The number of micro-batches per
// window is constant, except for the last window of an epoch, or grows over training with a ramp.
//
// A ramp is a list of stages {samples, micro_batches}: once so many samples are consumed, each window has so
// many micro-batches, as in Megatron-LM's --step-batch-size-schedule. Windows never cross the end of an
// epoch. Where step s begins depends only on the data set's size and these options, so a run can resume in
// the middle of a ramp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shoehorn {

struct RampStage {
  int64_t samples = 0;        // consumed before the first window of the stage
  int64_t micro_batches = 1;  // per window of the stage

  bool operator==(const RampStage&) const = default;
};

struct WindowScheduleOptions {
  int64_t samples = 0;
  int64_t micro_batch_size = 8;             // per_device_train_batch_size
  int64_t gradient_accumulation_steps = 1;  // micro-batches per window; with a ramp, of its last stage
  bool drop_last = false;                   // leave out an incomplete micro-batch
  std::vector<RampStage> ramp = {};         // empty: no ramp. Both columns increase; the first samples is 0
};

// The micro-batches of a window, counted within its epoch.
struct WindowPlace {
  int64_t first = 0;
  int64_t count = 0;  // 0: there is no such window
};

// The position at which a run continues after a number of optimizer steps.
struct ResumePoint {
  int64_t epoch;
  int64_t update_step;  // within the epoch
};

// Immutable. Calls allocate nothing and are thread-safe.
class WindowSchedule {
 public:
  // UserError: no samples, a size below 1, or drop_last with fewer samples than a micro-batch. Stores 8 bytes
  // per window of the epochs that the ramp touches.
  explicit WindowSchedule(WindowScheduleOptions options);

  int64_t micro_batches_per_epoch() const { return micro_batches_; }
  // The number of epochs, counted from the first, that the ramp touches.
  int64_t ramp_epochs() const { return static_cast<int64_t>(epoch_begins_.size()) - 1; }
  // The number of windows in an epoch; the same for all epochs behind the ramp.
  int64_t steps_in(int64_t epoch) const;
  WindowPlace place(int64_t epoch, int64_t update_step) const;

  ResumePoint resume_point(int64_t global_step) const;
  // How many samples the first `global_step` optimizer steps consume.
  int64_t samples_before(int64_t global_step) const;

 private:
  int64_t samples_up_to(int64_t micro_batch) const;
  int64_t window_size(int64_t consumed_samples) const;
  std::span<const int64_t> ramp_epoch(int64_t epoch) const;

  WindowScheduleOptions options_;
  int64_t micro_batches_ = 0;
  int64_t samples_per_epoch_ = 0;
  // The first micro-batch of each window in the ramp's epochs, epoch after epoch; and where each epoch begins
  // in that list (the last element is its end).
  std::vector<int64_t> ramp_firsts_;
  std::vector<int64_t> epoch_begins_ = {0};
};

}  // namespace shoehorn
