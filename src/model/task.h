// A task is what a model is trained for: the labels it takes, its loss, and how evaluation and prediction
// read its outputs. The tasks that exist are in tasks/.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "data/dataset.h"
#include "data/labels.h"
#include "model/prediction.h"
#include "model/score.h"
#include "model/tensor.h"

namespace shoehorn {

class ModelBuilder;

// The loss over an evaluation data set.
struct EvaluationLoss {
  double mean = 0;  // over its targets
  double mean_of_batches =
      0;  // of the means of its batches, weighted by their samples: the Trainer's eval_loss
  int64_t targets = 0;
  int64_t right = 0;  // targets that have the first of the largest logits, where the task counts them
};

struct LossOptions {
  float label_smoothing = 0;  // [0, 1]
  float z_loss = 0;  // of cross-entropies: times the square of the log-sum-exp of each target's logits
  // f32[C], or none. Of one class a text: the factor of its loss, as torch's CrossEntropyLoss(weight=), whose mean is
  // over the sum of the targets' weights. Of any number of classes: the factor of the loss of texts that have the class,
  // as torch's BCEWithLogitsLoss(pos_weight=).
  Tensor class_weights = {};
};

// Immutable.
class Task {
 public:
  virtual ~Task() = default;

  // How labels of a file are read. Its names are the names of the model's outputs, in order.
  const LabelMap& label_map() const { return label_map_; }
  int64_t num_labels() const { return label_map_.num_labels(); }
  // The label shape that a data set for this task must have.
  virtual LabelShape label_shape() const = 0;
  // UserError naming the `which` data ("training", "evaluation") if its labels do not fit the task. Data
  // without labels (for prediction) passes.
  virtual void check_labels(const Dataset& dataset, const char* which) const = 0;

  // f32[1]: the sum of the losses of the micro-batch's targets, divided by the number of targets in the
  // effective batch. UserError for an option that this loss does not support.
  virtual Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const = 0;

  // The name of the model output that is scored and predicted: num_labels() values per sequence. None: evaluation is of
  // the loss alone.
  virtual std::optional<std::string> scored_output() const { return "logits"; }
  virtual std::unique_ptr<Score> make_score() const = 0;
  // Bytes that the score keeps of the outputs of so many samples (Score::keep_in).
  virtual int64_t score_bytes(int64_t /*samples*/) const { return 0; }
  // Whether the loss counts the targets that it finds right (EvaluationLoss::right): a cross-entropy does.
  virtual bool counts_right_targets() const { return false; }
  // Metrics of the evaluation's loss, with names without "eval_".
  virtual Metrics loss_metrics(const EvaluationLoss& loss) const { return {{"loss", loss.mean}}; }
  // What PEFT calls the task in adapter_config.json.
  virtual std::string peft_task_type() const { return "SEQ_CLS"; }
  virtual PredictionForm prediction_form() const = 0;
  // What the outputs of one sample, num_labels() of them, mean.
  virtual Prediction prediction(std::span<const float> outputs) const = 0;

 protected:
  explicit Task(LabelMap label_map) : label_map_(std::move(label_map)) {}

 private:
  LabelMap label_map_;
};

}  // namespace shoehorn
