// Any number of classes per text. The loss is the binary cross-entropy of each logit.
#pragma once

#include <string>
#include <vector>

#include "model/task.h"

namespace shoehorn {

class MultiLabelClassification final : public Task {
 public:
  explicit MultiLabelClassification(std::vector<std::string> classes);

  LabelShape label_shape() const override { return {LabelKind::kValue, num_labels()}; }
  // Label values must lie in [0, 1].
  void check_labels(const Dataset& dataset, const char* which) const override;
  // UserError: label smoothing.
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const override;
  // MultiLabelCounts.
  std::unique_ptr<Score> make_score() const override;
  PredictionForm prediction_form() const override { return PredictionForm::kClasses; }
  // Predicts the classes with a probability above 0.5.
  Prediction prediction(std::span<const float> logits) const override;
};

}  // namespace shoehorn
