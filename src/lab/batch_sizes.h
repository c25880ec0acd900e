// `bench batch`: throughput and memory of the training step by batch size, and which sizes suit the hardware.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/hardware_multiples.h"
#include "lab/measured_step.h"
#include "lab/process_progress.h"
#include "lab/rounds.h"

namespace shoehorn {

struct BatchSizesOptions {
  std::string model;
  std::vector<std::string> flags;  // of `shoehorn bench step`, without model, batch size and steps
  int64_t sequence_length = 0;
  int64_t most = 64;                     // the largest batch to try
  int64_t steps = 4;                     // per process; the first is not in the median
  RoundLimits rounds = {.least = 2};     // how often a size is measured
  int64_t preferred_token_multiple = 1;  // the kernels prefer multiples of this many tokens per micro-batch
  std::string preferred_why;
  std::vector<HardwareMultiple> multiples = {};
  std::vector<NamedSize> model_sizes = {};
  MachineProfile machine = {};
};

struct BatchSizeResult {
  int64_t batch_size = 0;
  int64_t tokens = 0;  // per micro-batch
  bool is_preferred = false;
  StepPlan plan;
  StepRun run;
};

struct BatchSizesResult {
  BatchSizesOptions options;
  std::vector<BatchSizeResult> sizes;
  bool is_complete = true;  // false: sizes are still to be measured

  // The size with the most samples per second; null if none was measured.
  const BatchSizeResult* fastest() const;
  // The sizes whose time per sample cannot be told apart from the fastest one's by the steps that were measured
  // (can_tell_apart), the fastest one not among them.
  std::vector<const BatchSizeResult*> alike() const;
  // The fastest one, if no other is like it and all are measured; else null: it is not known which is best.
  const BatchSizeResult* best() const;
};

// Measures 1, 2, 4, … up to `most`, or to the first that does not fit, which is the last result, in turns
// (lab/rounds.h). UserError if a flag is refused. `on_result` gets the sizes that are measured so far, after each process.
BatchSizesResult measure_batch_sizes(const BatchSizesOptions& options, const RunProgress& on_run,
                                     const std::function<void(const BatchSizesResult&)>& on_result = {});

// 0: all were measured except possibly the last, which may be too large. 1: one failed. 2: none fits.
int exit_code_of(const BatchSizesResult& result);

}  // namespace shoehorn
