#include "tasks/single_label_classification.h"

#include <cmath>

#include "base/error.h"
#include "model/model_builder.h"
#include "tasks/confusion_counts.h"
#include "tasks/task_checks.h"

namespace shoehorn {

namespace {

std::vector<double> softmax(std::span<const float> logits) {
  const float largest = logits[static_cast<size_t>(predicted_class(logits))];
  std::vector<double> scores;
  double sum = 0;
  for (const float logit : logits) {
    scores.push_back(std::exp(static_cast<double>(logit) - largest));
    sum += scores.back();
  }
  for (double& score : scores) score /= sum;
  return scores;
}

}  // namespace

SingleLabelClassification::SingleLabelClassification(std::vector<std::string> classes)
    : Task({.problem = ProblemType::kSingleLabel, .names = std::move(classes)}) {}

void SingleLabelClassification::check_labels(const Dataset& dataset, const char* which) const {
  check_label_shape(*this, dataset, which);
  if (dataset.label_kind() == LabelKind::kNone) return;
  for (int64_t i = 0; i < dataset.distinct_size(); ++i) {
    const int32_t label = dataset.class_label(i);
    if (label == kIgnoredLabel || (label >= 0 && label < num_labels())) continue;
    throw user_error(
        "[{} data] expected labels from 0 to {}, the model's classes, or {} for none, got {} in sample {}",
        which, num_labels() - 1, kIgnoredLabel, label, i);
  }
}

Tensor SingleLabelClassification::loss(ModelBuilder& builder, const Outputs& outputs,
                                       const LossOptions& options) const {
  return builder.cross_entropy(outputs.at("logits"), options.label_smoothing, options.class_weights,
                               options.z_loss);
}

std::unique_ptr<Score> SingleLabelClassification::make_score() const {
  return std::make_unique<ConfusionCounts>(num_labels());
}

Prediction SingleLabelClassification::prediction(std::span<const float> logits) const {
  return {.classes = {predicted_class(logits)}, .scores = softmax(logits)};
}

}  // namespace shoehorn
