#include "tasks/multi_label_classification.h"

#include <cmath>

#include "model/model_builder.h"
#include "tasks/multi_label_counts.h"
#include "tasks/task_checks.h"

namespace shoehorn {

namespace {

// Neither form overflows.
double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double power = std::exp(x);
  return power / (1 + power);
}

}  // namespace

MultiLabelClassification::MultiLabelClassification(std::vector<std::string> classes)
    : Task({.problem = ProblemType::kMultiLabel, .names = std::move(classes)}) {}

void MultiLabelClassification::check_labels(const Dataset& dataset, const char* which) const {
  check_label_values(*this, dataset, which, 0, 1);
}

Tensor MultiLabelClassification::loss(ModelBuilder& builder, const Outputs& outputs,
                                      const LossOptions& options) const {
  expect_no_smoothing(*this, options);
  expect_no_z_loss(*this, options);
  return builder.binary_cross_entropy(outputs.at("logits"), options.class_weights);
}

std::unique_ptr<Score> MultiLabelClassification::make_score() const {
  return std::make_unique<MultiLabelCounts>(num_labels());
}

Prediction MultiLabelClassification::prediction(std::span<const float> logits) const {
  Prediction prediction;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (is_predicted(logits[i])) prediction.classes.push_back(static_cast<int64_t>(i));
    prediction.scores.push_back(sigmoid(logits[i]));
  }
  return prediction;
}

}  // namespace shoehorn
