#include "train/metrics.h"

#include <cmath>

#include "base/error.h"

namespace shoehorn {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double metric_number(const MetricValue& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

int64_t predicted_class(std::span<const float> logits) {
  CHECK(!logits.empty(), "no logits");
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) return static_cast<int64_t>(i);
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int64_t>(best);
}

ConfusionCounts::ConfusionCounts(int64_t num_labels)
    : num_labels_(num_labels), counts_(static_cast<size_t>(num_labels * num_labels)) {
  CHECK(num_labels >= 1, "{} labels", num_labels);
}

void ConfusionCounts::add(int64_t label, int64_t prediction) {
  if (label == kIgnoredLabel) return;
  if (label < 0 || label >= num_labels_) {
    throw user_error("[label] expected 0 to {} or {}, got {}; the model has {} labels", num_labels_ - 1,
                     kIgnoredLabel, label, num_labels_);
  }
  CHECK(prediction >= 0 && prediction < num_labels_, "prediction {} of {} labels", prediction, num_labels_);
  ++counts_[static_cast<size_t>(label * num_labels_ + prediction)];
}

void ConfusionCounts::add_batch(std::span<const float> logits, std::span<const int32_t> labels) {
  const auto classes = static_cast<size_t>(num_labels_);
  CHECK(logits.size() == labels.size() * classes, "{} logits for {} labels of {} classes", logits.size(),
        labels.size(), classes);
  for (size_t s = 0; s < labels.size(); ++s)
    add(labels[s], predicted_class(logits.subspan(s * classes, classes)));
}

void ConfusionCounts::merge(const ConfusionCounts& other) {
  CHECK(num_labels_ == other.num_labels_, "{} and {} labels", num_labels_, other.num_labels_);
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

int64_t ConfusionCounts::count(int64_t label, int64_t prediction) const {
  return counts_.at(static_cast<size_t>(label * num_labels_ + prediction));
}

int64_t ConfusionCounts::total() const {
  int64_t sum = 0;
  for (const int64_t count : counts_) sum += count;
  return sum;
}

int64_t ConfusionCounts::labelled(int64_t label) const {
  int64_t sum = 0;
  for (int64_t prediction = 0; prediction < num_labels_; ++prediction) sum += count(label, prediction);
  return sum;
}

int64_t ConfusionCounts::predicted(int64_t prediction) const {
  int64_t sum = 0;
  for (int64_t label = 0; label < num_labels_; ++label) sum += count(label, prediction);
  return sum;
}

double ConfusionCounts::accuracy() const {
  int64_t right = 0;
  for (int64_t label = 0; label < num_labels_; ++label) right += count(label, label);
  return ratio(right, total());
}

double ConfusionCounts::precision(int64_t label) const {
  return ratio(count(label, label), predicted(label));
}

double ConfusionCounts::recall(int64_t label) const {
  return ratio(count(label, label), labelled(label));
}

double ConfusionCounts::f1(int64_t label) const {
  return ratio(2 * count(label, label), labelled(label) + predicted(label));
}

double ConfusionCounts::macro_f1() const {
  double sum = 0;
  int64_t classes = 0;
  for (int64_t label = 0; label < num_labels_; ++label) {
    if (labelled(label) + predicted(label) == 0) continue;
    sum += f1(label);
    ++classes;
  }
  return classes == 0 ? 0.0 : sum / static_cast<double>(classes);
}

double ConfusionCounts::weighted_f1() const {
  double sum = 0;
  for (int64_t label = 0; label < num_labels_; ++label)
    sum += f1(label) * static_cast<double>(labelled(label));
  return total() == 0 ? 0.0 : sum / static_cast<double>(total());
}

Metrics ConfusionCounts::metrics(const std::string& prefix) const {
  Metrics metrics = {{prefix + "accuracy", accuracy()},
                     {prefix + "f1", num_labels_ == 2 ? f1(1) : macro_f1()}};
  if (num_labels_ > 2) metrics[prefix + "f1_weighted"] = weighted_f1();
  return metrics;
}

}  // namespace shoehorn
