// Which micro-batches make which effective batch (window) of a run: the same number in each but the last of
// an epoch, or with a ramp a number that grows over training.
//
// A ramp is a list of stages {samples, micro_batches}: from so many consumed samples on, a window is made of
// so many micro-batches, as Megatron-LM's --step-batch-size-schedule counts. Windows never cross the end of
// an epoch. Where step s begins depends on nothing but the data set's size and these options, so a run can go
// on in the middle of a ramp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shoehorn {

struct RampStage {
  int64_t samples = 0;        // consumed before the first window of the stage
  int64_t micro_batches = 1;  // of its windows

  bool operator==(const RampStage&) const = default;
};

struct WindowScheduleOptions {
  int64_t samples = 0;
  int64_t micro_batch_size = 8;             // per_device_train_batch_size
  int64_t gradient_accumulation_steps = 1;  // micro-batches of a window; of the last stage of a ramp
  bool drop_last = false;                   // an incomplete micro-batch is left out
  std::vector<RampStage> ramp = {};         // empty: none. Both columns grow; the first samples are 0
};

// Micro-batches of a window within its epoch.
struct WindowPlace {
  int64_t first = 0;
  int64_t count = 0;  // 0: there is no such window
};

// Where a run that has made so many optimizer steps goes on.
struct ResumePoint {
  int64_t epoch;
  int64_t update_step;  // within the epoch
};

// Immutable; calls allocate nothing and are safe from any thread.
class WindowSchedule {
 public:
  // UserError: no samples, a size below 1, drop_last with fewer samples than a micro-batch. The windows of
  // epochs that a ramp touches are kept, 8 bytes each.
  explicit WindowSchedule(WindowScheduleOptions options);

  int64_t micro_batches_per_epoch() const { return micro_batches_; }
  // Epochs 0, 1, … that a ramp touches.
  int64_t ramp_epochs() const { return static_cast<int64_t>(epoch_begins_.size()) - 1; }
  // Windows of an epoch; of all epochs behind the ramp as many.
  int64_t steps_in(int64_t epoch) const;
  WindowPlace place(int64_t epoch, int64_t update_step) const;

  ResumePoint resume_point(int64_t global_step) const;
  // Samples consumed by the first `global_step` optimizer steps.
  int64_t samples_before(int64_t global_step) const;

 private:
  int64_t samples_up_to(int64_t micro_batch) const;
  int64_t window_size(int64_t consumed_samples) const;
  std::span<const int64_t> ramp_epoch(int64_t epoch) const;

  WindowScheduleOptions options_;
  int64_t micro_batches_ = 0;
  int64_t samples_per_epoch_ = 0;
  // First micro-batches of the windows in the epochs of the ramp, one epoch after the other; and where each
  // epoch begins in that list, with its end as the last.
  std::vector<int64_t> ramp_firsts_;
  std::vector<int64_t> epoch_begins_ = {0};
};

}  // namespace shoehorn
