// Runs the evaluation program over a data set.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/task.h"
#include "ranks/communicator.h"
#include "session/batch_feed.h"
#include "session/session.h"

namespace shoehorn {

struct EvaluationOptions {
  int64_t batch_size = 8;
  int64_t pad_to_max_length = 0;
  // Called for each batch, in the order of the data, with the outputs that the task scores: [S, C],
  // row-major. May be unset.
  std::function<void(std::span<const float> outputs)> on_outputs = {};
  // Called with the number of samples done so far. May be unset.
  std::function<void(int64_t samples)> on_progress = {};
  // Records each batch after the first as a step. Null: no recording.
  class StepProfile* profile = nullptr;
  // Ranks that evaluate together, all with the same samples: each runs every N-th batch and tells the others its outputs,
  // so that all of them count all batches in their order, and have the result of one rank, bit for bit. Null: one.
  Communicator* ranks = nullptr;
};

struct EvaluationResult {
  EvaluationLoss loss = {};   // 0 if there are no labels
  Metrics loss_metrics = {};  // the task's
  int64_t samples = 0;
  int64_t batches = 0;
  double seconds = 0;            // of the batches alone
  std::unique_ptr<Score> score;  // of the labelled samples
};

// An evaluation whose samples come in parts. Each part is cut into batches of its own, so that parts whose sizes are
// multiples of the batch size, but for the last, are evaluated bit for bit as they would be in one.
//
//   Evaluation evaluation(session, task, options);
//   while (…) evaluation.add(part);
//   const EvaluationResult result = evaluation.finish();
class Evaluation {
 public:
  // `session` is reserved and has an evaluation program with room for the batches; it outlives this object, as does
  // `task`, its model's.
  Evaluation(Session& session, const Task& task, EvaluationOptions options);

  // Lets the score keep outputs in the session's memory, if that has room for those of so many samples in all. Otherwise,
  // and without this call, memory grows with what the score keeps. Before the first part.
  void lend_memory(int64_t samples);
  // Counts the samples' labels if they have any.
  void add(const Dataset& samples);
  // Call it once, after the last part.
  EvaluationResult finish();

 private:
  // What the program says of a batch.
  struct BatchResult {
    float loss = 0;
    int64_t right = 0;              // targets that are predicted right, where the task counts them
    std::span<const float> rows{};  // [S, C]: the outputs that are scored
  };

  double weight_of(const Dataset& samples, std::span<const int64_t> packed) const;
  std::span<const int64_t> pack(const Dataset& samples, int64_t from, int64_t size);
  void run_batch(const Dataset& samples, int64_t from, int64_t size,
                 const std::function<void(const BatchResult&)>& use);
  void count_batch(const Dataset& samples, std::span<const int64_t> packed, const BatchResult& batch);
  void add_batch(const Dataset& samples, int64_t from, int64_t size);
  void add_round(const Dataset& samples, int64_t from);

  Session& session_;
  const Task& task_;
  EvaluationOptions options_;
  std::optional<std::string> scored_;
  MicroBatchInputs inputs_;
  EvaluationResult result_;
  std::vector<int64_t> order_, counts_;
  double loss_sum_ = 0;
  double loss_of_samples_ = 0;
  double weight_sum_ = 0;
  int64_t samples_with_labels_ = 0;
};

// The same of one data set. `session` is reserved and has an evaluation program with room for the batches. `task` is its
// model's.
EvaluationResult evaluate(Session& session, const Dataset& dataset, const Task& task,
                          const EvaluationOptions& options);

// eval_runtime, eval_samples_per_second, eval_steps_per_second; for labelled samples also eval_loss and,
// unless `loss_only`, the metrics of the task's score.
Metrics evaluation_metrics(const EvaluationResult& result, bool loss_only = false,
                           const std::string& prefix = "eval_");

// The names that evaluation_metrics() may have for labelled samples of the task, and those of the further averages of its
// score's details, in alphabetical order.
std::vector<std::string> evaluation_metric_names(const Task& task, bool loss_only = false,
                                                 const std::string& prefix = "eval_");

// GLUE's name of a metric that people know by another: matthews_correlation for mcc, spearmanr for spearman. Other names
// as they are, all with or without "eval_".
std::string common_metric_name(const std::string& metric);

// The capacity that the evaluation program needs for any batch of the data set.
BatchCapacity batch_capacity_of(const Dataset& dataset, int64_t batch_size, int64_t pad_to_max_length);

}  // namespace shoehorn
