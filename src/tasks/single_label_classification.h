// One class per text. The loss is the cross-entropy with the softmax of the logits.
#pragma once

#include <string>
#include <vector>

#include "model/task.h"

namespace shoehorn {

class SingleLabelClassification final : public Task {
 public:
  explicit SingleLabelClassification(std::vector<std::string> classes);
  // Classes with default names.
  explicit SingleLabelClassification(int64_t classes) : SingleLabelClassification(default_labels(classes)) {}

  LabelShape label_shape() const override { return {LabelKind::kClass}; }
  // A label must be one of the classes, or kIgnoredLabel for none.
  void check_labels(const Dataset& dataset, const char* which) const override;
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const override;
  // ConfusionCounts.
  std::unique_ptr<Score> make_score() const override;
  PredictionForm prediction_form() const override { return PredictionForm::kClass; }
  // Scores are the softmax of the logits.
  Prediction prediction(std::span<const float> logits) const override;
};

}  // namespace shoehorn
