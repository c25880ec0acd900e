// Metrics of regression: errors and correlations.
//
// C values per sample. Sums are in double. Pearson's correlation sums deviations from running means (Welford,
// 1962), which avoids cancellation if the means are large compared with the deviations. Spearman's is Pearson's of the
// ranks, where equal values have the mean of their ranks (scipy's spearmanr): it needs all values at once, so with one
// value a sample they are kept, kBytesPerSample each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/score.h"

namespace shoehorn {

class RegressionErrors final : public Score {
 public:
  // What is kept of a sample.
  struct RankedPair {
    float prediction;
    float label;
    // Twice the rank, which is whole: from 2 on.
    int32_t prediction_rank;
    int32_t label_rank;
  };
  static constexpr int64_t kBytesPerSample = sizeof(RankedPair);

  explicit RegressionErrors(int64_t num_labels);

  // CHECKs that the memory, where it was lent, has room.
  void add(std::span<const float> outputs, const MicroBatch& batch) override;
  // Predictions and labels [S, C], row-major.
  void add_batch(std::span<const float> predictions, std::span<const float> labels);
  void keep_in(std::span<std::byte> memory) override;

  int64_t total() const override { return values_ / num_labels_; }
  // Over all values of all samples; 0 if there are none.
  double mean_squared_error() const;
  double root_mean_squared_error() const;
  double mean_absolute_error() const;
  // Correlations; NaN if predictions or labels do not vary, or some are no numbers. Spearman's only with one value a
  // sample; it sorts what is kept.
  double pearson() const;
  double spearman() const;

  // mse, rmse and mae; with one value per sample also pearson and spearmanr.
  Metrics metrics() const override;

 private:
  void keep(const RankedPair& pair);
  std::span<RankedPair> pairs() const;

  int64_t num_labels_;
  int64_t values_ = 0;
  double squared_ = 0, absolute_ = 0;  // sums of errors
  double prediction_mean_ = 0, label_mean_ = 0;
  double prediction_square_ = 0, label_square_ = 0, product_ = 0;  // sums of products of deviations
  // With one value a sample; sorted where a metric asks for it, whose order is nobody's business.
  mutable std::vector<RankedPair> own_;
  std::span<RankedPair> lent_;
};

}  // namespace shoehorn
