#include "tasks/regression_errors.h"

#include <cmath>

namespace shoehorn {

RegressionErrors::RegressionErrors(int64_t num_labels) : num_labels_(num_labels) {
  CHECK(num_labels >= 1, "{} labels", num_labels);
}

void RegressionErrors::add(std::span<const float> outputs, const MicroBatch& batch) {
  add_batch(outputs, batch.floats(BatchColumn::kValueLabels).first(outputs.size()));
}

void RegressionErrors::add_batch(std::span<const float> predictions, std::span<const float> labels) {
  CHECK(predictions.size() == labels.size() && predictions.size() % static_cast<size_t>(num_labels_) == 0,
        "{} predictions and {} labels of {} values", predictions.size(), labels.size(), num_labels_);
  for (size_t i = 0; i < predictions.size(); ++i) {
    const double prediction = predictions[i];
    const double label = labels[i];
    const double error = prediction - label;
    squared_ += error * error;
    absolute_ += std::abs(error);
    ++values_;
    const double before = prediction - prediction_mean_;
    const double label_before = label - label_mean_;
    prediction_mean_ += before / static_cast<double>(values_);
    label_mean_ += label_before / static_cast<double>(values_);
    prediction_square_ += before * (prediction - prediction_mean_);
    label_square_ += label_before * (label - label_mean_);
    product_ += before * (label - label_mean_);
  }
}

double RegressionErrors::mean_squared_error() const {
  return values_ == 0 ? 0 : squared_ / static_cast<double>(values_);
}

double RegressionErrors::mean_absolute_error() const {
  return values_ == 0 ? 0 : absolute_ / static_cast<double>(values_);
}

double RegressionErrors::pearson() const {
  return product_ / std::sqrt(prediction_square_ * label_square_);
}

Metrics RegressionErrors::metrics() const {
  Metrics metrics = {{"mse", mean_squared_error()}, {"mae", mean_absolute_error()}};
  if (num_labels_ == 1 && prediction_square_ > 0 && label_square_ > 0) metrics["pearson"] = pearson();
  return metrics;
}

std::vector<std::string> RegressionErrors::metric_names() const {
  if (num_labels_ == 1) return {"mae", "mse", "pearson"};
  return {"mae", "mse"};
}

}  // namespace shoehorn
