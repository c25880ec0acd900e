// One or more numbers per text. The loss is the squared error.
#pragma once

#include <string>
#include <vector>

#include "model/task.h"

namespace shoehorn {

class Regression final : public Task {
 public:
  explicit Regression(std::vector<std::string> values);

  LabelShape label_shape() const override { return {LabelKind::kValue, num_labels()}; }
  // Label values must be finite.
  void check_labels(const Dataset& dataset, const char* which) const override;
  // UserError: label smoothing, class weights.
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const override;
  // RegressionErrors.
  std::unique_ptr<Score> make_score() const override;
  int64_t score_bytes(int64_t samples) const override;
  PredictionForm prediction_form() const override { return PredictionForm::kValues; }
  Prediction prediction(std::span<const float> values) const override;
};

}  // namespace shoehorn
