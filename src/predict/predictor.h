// A model that predicts samples which come in parts, in memory that is planned and reserved once.
//
//   Predictor predictor(model, args, largest, {.weights = directory});
//   predictor.prepare();
//   while (…) predictor.predict(part, [&](std::span<const float> outputs) { … });
//   const EvaluationResult result = predictor.finish();
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "arguments/training_arguments.h"
#include "data/dataset.h"
#include "model/model.h"
#include "ranks/communicator.h"
#include "state/original_weights.h"
#include "train/evaluation.h"
#include "train/planned_run.h"

namespace shoehorn {

struct PredictorOptions {
  std::filesystem::path weights = {};  // as in TrainerOptions (train/trainer.h)
  std::filesystem::path adapter = {};
  std::function<void(const std::string& line)> on_line = {};  // notices; may be unset
  std::shared_ptr<const Backend> backend = {};                // null: the CPU
  // The ranks that predict together, each with a Predictor of the same arguments that gets the same samples; null: one.
  std::shared_ptr<Communicator> ranks = {};
  // The most that the caller will hold besides what it holds when the predictor is made. The forecast counts it.
  int64_t caller_bytes = 0;
};

// One thread at a time. A stop that is requested (base/stop_request.h) makes prepare() and predict() throw Stopped; of any rank, all
// of them.
class Predictor {
 public:
  // Plans for batches of any samples of `largest`, and reserves nothing. `model` must outlive the predictor. UserError
  // if model, arguments and samples do not go together.
  Predictor(const Model& model, TrainingArguments args, const Dataset& largest, PredictorOptions options);
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  const MemoryForecast& forecast() const { return run_->forecast(); }
  int64_t resident_arena_bytes() const { return run_->session().executor().resident_arena_bytes(); }

  // Reserves the memory and loads the weights. DoesNotFit if the plan exceeds the budget; UserError for weights that
  // lack a parameter.
  void prepare();

  // Predicts the samples in their order, in batches of per_device_eval_batch_size: a part whose size is no multiple of
  // it should be the last. Calls on_outputs for each batch with its outputs, [S, num_labels()]. Samples with labels are
  // scored. UserError: samples that do not fit the model or have labels that its task does not take; of ranks, others than the
  // first rank has.
  void predict(const Dataset& samples, const std::function<void(std::span<const float> outputs)>& on_outputs);

  // Of all samples. Call it once, after the last part.
  EvaluationResult finish();

 private:
  const Model& model_;
  TrainingArguments args_;
  PredictorOptions options_;
  std::unique_ptr<PlannedRun> run_;
  std::optional<OriginalWeights> originals_;
  std::optional<Evaluation> evaluation_;
  const std::function<void(std::span<const float> outputs)>* on_outputs_ = nullptr;  // of the part under way
};

}  // namespace shoehorn
