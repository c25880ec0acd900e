// Metrics of regression: errors and correlation.
//
// C values per sample. Sums are in double. The correlation sums deviations from running means (Welford,
// 1962), which avoids cancellation if the means are large compared with the deviations.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/score.h"

namespace shoehorn {

class RegressionErrors final : public Score {
 public:
  explicit RegressionErrors(int64_t num_labels);

  void add(std::span<const float> outputs, const MicroBatch& batch) override;
  // Predictions and labels [S, C], row-major.
  void add_batch(std::span<const float> predictions, std::span<const float> labels);

  int64_t total() const override { return values_ / num_labels_; }
  // Over all values of all samples; 0 if there are none.
  double mean_squared_error() const;
  double mean_absolute_error() const;
  // Pearson's correlation; NaN if predictions or labels do not vary.
  double pearson() const;

  // mse and mae; with one value per sample also pearson, if it is defined.
  Metrics metrics() const override;
  std::vector<std::string> metric_names() const override;

 private:
  int64_t num_labels_;
  int64_t values_ = 0;
  double squared_ = 0, absolute_ = 0;  // sums of errors
  double prediction_mean_ = 0, label_mean_ = 0;
  double prediction_square_ = 0, label_square_ = 0, product_ = 0;  // sums of products of deviations
};

}  // namespace shoehorn
