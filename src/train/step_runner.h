// Runs one optimizer step on the planned programs of a session. The Trainer and hand-written loops
// (accelerator.h) share it.
//
//   runner.begin({.step = 0, .applied_updates = 0, .target_weight = 32});
//   for (int64_t m = 0; m < window.own_micro_batches; ++m) runner.run_micro_batch(windows, window, m);
//   const StepResult result = runner.finish(learning_rate);
//
// In micro-batch order the forward and backward of a micro-batch run as it is given, and finish() runs the
// update. Where the step is one program (one micro-batch a step, or layer-major order), micro-batches are put
// into its inputs and finish() runs it whole. Where programs of several buckets are there, the smallest runs that a
// micro-batch, or every one of the step, fits. Allocates nothing after construction; one thread at a time.
// With a profile, programs and waits for data are recorded in it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/step_profile.h"
#include "data/window_iterator.h"
#include "ranks/communicator.h"
#include "session/session.h"

namespace shoehorn {

struct StepStart {
  int64_t step = 0;             // optimizer steps so far: selects the dropout masks
  int64_t applied_updates = 0;  // updates applied so far: for bias correction
  double target_weight = 0;     // of the whole effective batch (Window); the loss is divided by it
};

struct StepResult {
  float loss = 0;           // mean over the targets of the effective batch
  float grad_norm = 0;      // before clipping; 0 without clipping
  bool is_skipped = false;  // a gradient overflowed in fp16; nothing was updated
};

class StepRunner {
 public:
  // `session` must be reserved before the first begin(). It, the profile (null: none) and the ranks (null: one) must outlive
  // the runner.
  explicit StepRunner(Session& session, StepProfile* profile = nullptr, Communicator* ranks = nullptr);

  void begin(const StepStart& start);
  // This rank's micro-batch `index` of the iterator's current window; call it with 0, 1, … in order. One that does not count
  // adds nothing to losses and gradients.
  void run_micro_batch(WindowIterator& windows, const Window& window, int64_t index);
  // All of them.
  void run_micro_batches(WindowIterator& windows, const Window& window);
  StepResult finish(double learning_rate);
  // Local SGD: the average over ranks (passes/local_sgd.h), between two steps, on all ranks together.
  void outer_update();

  // Seconds spent so far in filling the program's inputs.
  double data_wait_seconds() const { return data_wait_seconds_; }

 private:
  // `load` fills the program's inputs of micro-batch `index`.
  template <typename Load>
  void take_micro_batch(const Window& window, int64_t index, bool counts, const Load& load);
  void run_loaded(const Window& window, int64_t index, const BatchCapacity& needed);
  void run(ProgramId program, std::span<const int64_t> counts);

  Session& session_;
  StepProfile* profile_;
  Communicator* ranks_;
  double data_wait_seconds_ = 0;
  bool is_one_program_;   // a step, with all of its micro-batches
  BatchCapacity needed_;  // by every micro-batch since begin()
  std::vector<int64_t> counts_;
};

}  // namespace shoehorn
