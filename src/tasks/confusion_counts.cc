#include "tasks/confusion_counts.h"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/dataset.h"
#include "tasks/ratio.h"

namespace shoehorn {
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
    : num_labels_(num_labels),
      labelled_(static_cast<size_t>(num_labels)),
      predicted_(labelled_.size()),
      correct_(labelled_.size()) {
  CHECK(num_labels >= 1, "{} labels", num_labels);
  if (num_labels <= kMaxConfusionClasses) table_.resize(static_cast<size_t>(num_labels * num_labels));
}

void ConfusionCounts::add(int64_t label, int64_t prediction) {
  if (label == kIgnoredLabel) return;
  if (label < 0 || label >= num_labels_) {
    throw user_error("[label] expected 0 to {} or {}, got {}; the model has {} labels", num_labels_ - 1,
                     kIgnoredLabel, label, num_labels_);
  }
  CHECK(prediction >= 0 && prediction < num_labels_, "prediction {} of {} labels", prediction, num_labels_);
  ++labelled_[static_cast<size_t>(label)];
  ++predicted_[static_cast<size_t>(prediction)];
  if (label == prediction) ++correct_[static_cast<size_t>(label)];
  if (has_table()) ++table_[static_cast<size_t>(label * num_labels_ + prediction)];
}

void ConfusionCounts::add_batch(std::span<const float> logits, std::span<const int32_t> labels) {
  const auto classes = static_cast<size_t>(num_labels_);
  CHECK(logits.size() == labels.size() * classes, "{} logits for {} labels of {} classes", logits.size(),
        labels.size(), classes);
  for (size_t s = 0; s < labels.size(); ++s)
    add(labels[s], predicted_class(logits.subspan(s * classes, classes)));
}

void ConfusionCounts::add(std::span<const float> outputs, const MicroBatch& batch) {
  add_batch(outputs, batch.ints(BatchColumn::kClassLabels).first(static_cast<size_t>(batch.sequences)));
}

void ConfusionCounts::merge(const ConfusionCounts& other) {
  CHECK(num_labels_ == other.num_labels_, "{} and {} labels", num_labels_, other.num_labels_);
  for (size_t i = 0; i < labelled_.size(); ++i) {
    labelled_[i] += other.labelled_[i];
    predicted_[i] += other.predicted_[i];
    correct_[i] += other.correct_[i];
  }
  for (size_t i = 0; i < table_.size(); ++i) table_[i] += other.table_[i];
}

int64_t ConfusionCounts::total() const {
  return std::accumulate(labelled_.begin(), labelled_.end(), int64_t{0});
}

int64_t ConfusionCounts::labelled(int64_t label) const {
  return labelled_.at(static_cast<size_t>(label));
}

int64_t ConfusionCounts::predicted(int64_t prediction) const {
  return predicted_.at(static_cast<size_t>(prediction));
}

int64_t ConfusionCounts::correct(int64_t label) const {
  return correct_.at(static_cast<size_t>(label));
}

int64_t ConfusionCounts::count(int64_t label, int64_t prediction) const {
  CHECK(has_table() && prediction >= 0 && prediction < num_labels_, "prediction {} of {} labels", prediction,
        num_labels_);
  return table_.at(static_cast<size_t>(label * num_labels_ + prediction));
}

double ConfusionCounts::accuracy() const {
  return ratio(std::accumulate(correct_.begin(), correct_.end(), int64_t{0}), total());
}

double ConfusionCounts::precision(int64_t label) const {
  return ratio(correct(label), predicted(label));
}

double ConfusionCounts::recall(int64_t label) const {
  return ratio(correct(label), labelled(label));
}

double ConfusionCounts::f1(int64_t label) const {
  return ratio(2 * correct(label), labelled(label) + predicted(label));
}

double ConfusionCounts::macro(OfClass of) const {
  double sum = 0;
  int64_t classes = 0;
  for (int64_t label = 0; label < num_labels_; ++label) {
    if (labelled(label) + predicted(label) == 0) continue;
    sum += (this->*of)(label);
    ++classes;
  }
  return classes == 0 ? 0.0 : sum / static_cast<double>(classes);
}

double ConfusionCounts::weighted(OfClass of) const {
  double sum = 0;
  for (int64_t label = 0; label < num_labels_; ++label)
    sum += (this->*of)(label) * static_cast<double>(labelled(label));
  return total() == 0 ? 0.0 : sum / static_cast<double>(total());
}

double ConfusionCounts::macro_f1() const {
  return macro(&ConfusionCounts::f1);
}

double ConfusionCounts::weighted_f1() const {
  return weighted(&ConfusionCounts::f1);
}

double ConfusionCounts::matthews_correlation() const {
  const auto samples = static_cast<double>(total());
  double correct = 0;
  double labels_by_predictions = 0, labels_squared = 0, predictions_squared = 0;
  for (size_t i = 0; i < labelled_.size(); ++i) {
    const auto labels = static_cast<double>(labelled_[i]);
    const auto predictions = static_cast<double>(predicted_[i]);
    correct += static_cast<double>(correct_[i]);
    labels_by_predictions += labels * predictions;
    labels_squared += labels * labels;
    predictions_squared += predictions * predictions;
  }
  const double variances = (samples * samples - labels_squared) * (samples * samples - predictions_squared);
  return variances == 0 ? 0.0 : (correct * samples - labels_by_predictions) / std::sqrt(variances);
}

Metrics ConfusionCounts::metrics() const {
  const auto of_task = [&](OfClass of) { return num_labels_ == 2 ? (this->*of)(1) : macro(of); };
  Metrics metrics = {{"accuracy", accuracy()},
                     {"f1", of_task(&ConfusionCounts::f1)},
                     {"precision", of_task(&ConfusionCounts::precision)},
                     {"recall", of_task(&ConfusionCounts::recall)},
                     {"matthews_correlation", matthews_correlation()}};
  if (num_labels_ > 2) metrics["f1_weighted"] = weighted_f1();
  return metrics;
}

ScoreDetails ConfusionCounts::details(std::span<const std::string> names) const {
  CHECK(std::ssize(names) == num_labels_, "{} names of {} classes", names.size(), num_labels_);
  ScoreDetails details;
  for (const auto& [name, of] : {std::pair<std::string, OfClass>("precision", &ConfusionCounts::precision),
                                 {"recall", &ConfusionCounts::recall},
                                 {"f1", &ConfusionCounts::f1}}) {
    details.averages[name + "_macro"] = macro(of);
    details.averages[name + "_micro"] = accuracy();
    details.averages[name + "_weighted"] = weighted(of);
  }
  for (int64_t label = 0; label < num_labels_; ++label) {
    details.classes.push_back({.name = names[static_cast<size_t>(label)],
                               .precision = precision(label),
                               .recall = recall(label),
                               .f1 = f1(label),
                               .support = labelled(label)});
  }
  if (has_table())
    details.confusion = ConfusionMatrix{.names = {names.begin(), names.end()}, .counts = table_};
  return details;
}

}  // namespace shoehorn
