// What a model is trained for: the labels it takes, its loss, and how evaluation and prediction read its outputs. The
// tasks that there are: tasks/.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "data/dataset.h"
#include "data/labels.h"
#include "model/score.h"
#include "model/tensor.h"

namespace shoehorn {

class ModelBuilder;

struct LossOptions {
  float label_smoothing = 0;  // [0, 1]
};

// Immutable.
class Task {
 public:
  virtual ~Task() = default;

  // How the labels of a file are read. Its names are those of the model's outputs, in their order.
  const LabelMap& label_map() const { return label_map_; }
  int64_t num_labels() const { return label_map_.num_labels(); }
  // Those of a data set that goes with the task.
  virtual LabelShape label_shape() const = 0;
  // UserError naming the `which` data ("training", "evaluation") where the labels are none of this task's. Data
  // without labels, to be predicted, have none to check.
  virtual void check_labels(const Dataset& dataset, const char* which) const = 0;

  // f32[1]: the sum of the losses of the micro-batch's targets over the number of targets in the effective batch.
  // UserError for options that the loss does not have.
  virtual Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const = 0;

  // The output of the model that is scored and predicted: rows of num_labels() for each sequence.
  virtual const char* scored_output() const { return "logits"; }
  virtual std::unique_ptr<Score> make_score() const = 0;
  // What is predicted of one sample, as a JSON object on a line of its own, with its end. `raw`: the outputs as they
  // are in place of probabilities.
  virtual std::string prediction_line(std::span<const float> outputs, bool raw) const = 0;

 protected:
  explicit Task(LabelMap label_map) : label_map_(std::move(label_map)) {}

 private:
  LabelMap label_map_;
};

}  // namespace shoehorn
