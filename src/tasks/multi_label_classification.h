// Any number of classes for each text: binary cross-entropy of each logit with whether the text is of its class.
#pragma once

#include <string>
#include <vector>

#include "model/task.h"

namespace shoehorn {

class MultiLabelClassification final : public Task {
 public:
  explicit MultiLabelClassification(std::vector<std::string> classes);

  LabelShape label_shape() const override { return {LabelKind::kValue, num_labels()}; }
  // Labels are from 0 to 1.
  void check_labels(const Dataset& dataset, const char* which) const override;
  // UserError: label smoothing.
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const override;
  // MultiLabelCounts.
  std::unique_ptr<Score> make_score() const override;
  // {"labels": [names of the classes whose probability is above a half], "scores": [a probability for each class]}
  std::string prediction_line(std::span<const float> logits, bool raw) const override;
};

}  // namespace shoehorn
