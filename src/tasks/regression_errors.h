// The score of a regression: how far predictions are from the labels, and how they go together.
//
// C values a sample. Sums are in double; the correlation's are of differences from the running means (Welford, 1962),
// which does not cancel where the means are large beside the deviations.
#pragma once

#include <cstdint>
#include <span>

#include "model/score.h"

namespace shoehorn {

class RegressionErrors final : public Score {
 public:
  explicit RegressionErrors(int64_t num_labels);

  void add(std::span<const float> outputs, const MicroBatch& batch) override;
  // Predictions and labels (S, C) row by row.
  void add_batch(std::span<const float> predictions, std::span<const float> labels);

  int64_t total() const override { return values_ / num_labels_; }
  // Over all values of all samples; 0 where there is none.
  double mean_squared_error() const;
  double mean_absolute_error() const;
  // Pearson's correlation; NaN where predictions or labels do not vary.
  double pearson() const;

  // mse and mae; of one value a sample also pearson, where there is one.
  Metrics metrics() const override;

 private:
  int64_t num_labels_;
  int64_t values_ = 0;
  double squared_ = 0, absolute_ = 0;  // sums of errors
  double prediction_mean_ = 0, label_mean_ = 0;
  double prediction_square_ = 0, label_square_ = 0, product_ = 0;  // sums of products of deviations
};

}  // namespace shoehorn
