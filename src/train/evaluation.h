// Runs the evaluation program over a data set.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "data/dataset.h"
#include "model/task.h"
#include "session/session.h"

namespace shoehorn {

struct EvaluationOptions {
  int64_t batch_size = 8;
  int64_t pad_to_max_length = 0;
  // Called for each batch with the outputs that its task scores (S, C), row by row, in the order of the data; may be
  // unset.
  std::function<void(std::span<const float> outputs)> on_outputs = {};
  // Called with the samples done so far; may be unset.
  std::function<void(int64_t samples)> on_progress = {};
  // Records each batch after the first as a step of an evaluation run; null: nothing is recorded.
  class StepProfile* profile = nullptr;
};

struct EvaluationResult {
  double loss = 0;  // mean over the samples with a label; 0 without labels
  int64_t samples = 0;
  int64_t batches = 0;
  double seconds = 0;
  std::unique_ptr<Score> score;  // of the samples with a label
};

// `session` is reserved and has an evaluation program with room for the batches; `task` is its model's.
EvaluationResult evaluate(Session& session, const Dataset& dataset, const Task& task,
                          const EvaluationOptions& options);

// The metrics of the task's score, unless `loss_only`, and eval_loss, where a sample has a label; eval_runtime,
// eval_samples_per_second, eval_steps_per_second.
Metrics evaluation_metrics(const EvaluationResult& result, bool loss_only = false,
                           const std::string& prefix = "eval_");

// What any batch of the data set needs of the evaluation program.
BatchCapacity batch_capacity_of(const Dataset& dataset, int64_t batch_size, int64_t pad_to_max_length);

}  // namespace shoehorn
