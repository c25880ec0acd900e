#include "predict/predictor.h"

#include "base/error.h"
#include "base/stop_request.h"
#include "model/task.h"
#include "ranks/agreement.h"
#include "session/batching.h"
#include "state/starting_weights.h"
#include "train/rank_facts.h"

namespace shoehorn {

Predictor::Predictor(const Model& model, TrainingArguments args, const Dataset& largest,
                     PredictorOptions options)
    : model_(model), args_(resolved(std::move(args))), options_(std::move(options)) {
  if (options_.weights.empty()) options_.weights = model.weights_directory();
  validate(args_);
  check_data(model, largest, "prediction");
  if (padding_of(args_) > model.max_positions()) {
    throw user_error(
        "[max_seq_length] expected at most {} with pad_to_max_length, the model's positions, got {}",
        model.max_positions(), args_.max_seq_length);
  }
  run_ = std::make_unique<PlannedRun>(
      model_, args_, RunData{.evaluation = &largest},
      PlannedRunOptions{
          .backend = options_.backend, .ranks = options_.ranks, .caller_bytes = options_.caller_bytes});
}

void Predictor::prepare() {
  if (options_.ranks) {
    check_arguments_alike(*options_.ranks, args_);
    check_alike(*options_.ranks, facts_of_model(run_->session(), options_.weights, options_.adapter));
  } else {
    throw_if_stop_requested();
  }
  run_->reserve();
  if (options_.on_line) {
    for (const std::string& notice : model_.notices()) options_.on_line(notice);
  }
  originals_ = start_run({.weights = options_.weights,
                          .adapter = options_.adapter,
                          .seed = args_.seed,
                          .on_line = options_.on_line},
                         run_->session());
  evaluation_.emplace(
      run_->session(), model_.task(),
      EvaluationOptions{.batch_size = args_.per_device_eval_batch_size,
                        .pad_to_max_length = padding_of(args_),
                        .on_outputs = [this](std::span<const float> outputs) { (*on_outputs_)(outputs); },
                        .ranks = options_.ranks.get()});
}

void Predictor::predict(const Dataset& samples,
                        const std::function<void(std::span<const float> outputs)>& on_outputs) {
  CHECK(evaluation_.has_value(), "prepare() comes before predict()");
  if (options_.ranks) {
    check_alike(*options_.ranks, {{"the rows to predict", samples.content_hash()}});
  } else {
    throw_if_stop_requested();
  }
  check_data(model_, samples, "prediction");
  on_outputs_ = &on_outputs;
  evaluation_->add(samples);
}

EvaluationResult Predictor::finish() {
  CHECK(evaluation_.has_value(), "prepare() comes before finish()");
  return evaluation_->finish();
}

}  // namespace shoehorn
