#include "tasks/regression_errors.h"

#include <algorithm>
#include <cmath>

namespace shoehorn {

namespace {

using RankedPair = RegressionErrors::RankedPair;

// Of sums of products of deviations; within [-1, 1] whatever the rounding, and NaN where nothing varies.
double correlation(double product, double square, double other_square) {
  return std::clamp(product / (std::sqrt(square) * std::sqrt(other_square)), -1.0, 1.0);
}

// Sorts by a value and gives each its rank, twice: that of equal ones is the mean of their places.
template <float RankedPair::* kValue, int32_t RankedPair::* kRank>
void rank(std::span<RankedPair> pairs) {
  std::sort(pairs.begin(), pairs.end(),
            [](const RankedPair& a, const RankedPair& b) { return a.*kValue < b.*kValue; });
  for (size_t first = 0, last = 0; first < pairs.size(); first = last) {
    while (last < pairs.size() && pairs[last].*kValue == pairs[first].*kValue) ++last;
    for (size_t i = first; i < last; ++i) pairs[i].*kRank = static_cast<int32_t>(first + last + 1);
  }
}

}  // namespace

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
    if (num_labels_ == 1) keep({predictions[i], labels[i], 0, 0});
  }
}

void RegressionErrors::keep(const RankedPair& pair) {
  if (lent_.empty()) {
    own_.push_back(pair);
    return;
  }
  CHECK(values_ <= std::ssize(lent_), "{} samples in the memory of {}", values_, lent_.size());
  lent_[static_cast<size_t>(values_ - 1)] = pair;
}

void RegressionErrors::keep_in(std::span<std::byte> memory) {
  CHECK(values_ == 0, "memory for a score that has begun");
  if (num_labels_ == 1) {
    lent_ = {reinterpret_cast<RankedPair*>(memory.data()),
             memory.size() / static_cast<size_t>(kBytesPerSample)};
  }
}

std::span<RegressionErrors::RankedPair> RegressionErrors::pairs() const {
  return lent_.empty() ? std::span(own_) : lent_.first(static_cast<size_t>(values_));
}

double RegressionErrors::mean_squared_error() const {
  return values_ == 0 ? 0 : squared_ / static_cast<double>(values_);
}

double RegressionErrors::root_mean_squared_error() const {
  return std::sqrt(mean_squared_error());
}

double RegressionErrors::mean_absolute_error() const {
  return values_ == 0 ? 0 : absolute_ / static_cast<double>(values_);
}

double RegressionErrors::pearson() const {
  return correlation(product_, prediction_square_, label_square_);
}

double RegressionErrors::spearman() const {
  const std::span<RankedPair> all = pairs();
  const bool are_numbers = std::none_of(all.begin(), all.end(), [](const RankedPair& pair) {
    return std::isnan(pair.prediction) || std::isnan(pair.label);
  });
  if (!are_numbers) return std::nan("");
  rank<&RankedPair::prediction, &RankedPair::prediction_rank>(all);
  rank<&RankedPair::label, &RankedPair::label_rank>(all);
  const auto mean = static_cast<double>(all.size() + 1);  // of twice the ranks
  double predictions = 0, labels = 0, product = 0;
  for (const RankedPair& pair : all) {
    const double prediction = pair.prediction_rank - mean;
    const double label = pair.label_rank - mean;
    predictions += prediction * prediction;
    labels += label * label;
    product += prediction * label;
  }
  return correlation(product, predictions, labels);
}

Metrics RegressionErrors::metrics() const {
  Metrics metrics = {
      {"mse", mean_squared_error()}, {"rmse", root_mean_squared_error()}, {"mae", mean_absolute_error()}};
  if (num_labels_ == 1) {
    metrics["pearson"] = pearson();
    metrics["spearmanr"] = spearman();
  }
  return metrics;
}

}  // namespace shoehorn
