// Throughput and memory of the training step by batch size, and which sizes the hardware likes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/hardware_multiples.h"
#include "lab/measured_step.h"
#include "lab/process_progress.h"

namespace shoehorn {

struct BatchSizesOptions {
  std::string model;
  std::vector<std::string> flags;  // of `shoehorn bench step`, without the model, batch size and steps
  int64_t sequence_length = 0;
  int64_t most = 64;         // no larger batch is tried
  int64_t steps = 3;         // of a process; the first is not in its median
  int64_t liked_tokens = 1;  // tokens of a micro-batch that the kernels like are multiples of this
  std::string liked_why;
  std::vector<HardwareMultiple> multiples = {};
  std::vector<NamedSize> model_sizes = {};
  MachineProfile machine = {};
};

struct BatchSizeResult {
  int64_t batch_size = 0;
  int64_t tokens = 0;  // of a micro-batch
  bool is_liked = false;
  StepPlan plan;
  StepRun run;
};

struct BatchSizesResult {
  BatchSizesOptions options;
  std::vector<BatchSizeResult> sizes;

  // The one with the most samples a second; null where none was measured.
  const BatchSizeResult* best() const;
};

// 1, 2, 4, … up to `most`, or to the first that does not fit, which is the last of the result. UserError
// where a flag is refused.
BatchSizesResult measure_batch_sizes(const BatchSizesOptions& options, const RunProgress& on_run);

// The parts of the result, for whichever way it is shown.
std::string batch_sizes_title(const BatchSizesResult& result);
TextTable batch_sizes_table(const BatchSizesResult& result);
// The model's sizes and the tokens of each batch, against the multiples of this run.
TextTable batch_sizes_multiples(const BatchSizesResult& result);
// The best batch, why some were not measured, what is liked here.
std::vector<std::string> batch_sizes_remarks(const BatchSizesResult& result);

std::string format_batch_sizes(const BatchSizesResult& result);
// One file of HTML: samples a second and memory by batch size as plots, and the tables.
std::string batch_sizes_page(const BatchSizesResult& result);
nlohmann::ordered_json to_json(const BatchSizesResult& result);

// 0: all were measured but the last, which may be too large. 1: one broke down. 2: none fits.
int exit_code_of(const BatchSizesResult& result);

}  // namespace shoehorn
