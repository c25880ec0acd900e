#include "tasks/multi_label_counts.h"

#include <numeric>
#include <string>
#include <tuple>

#include "tasks/ratio.h"

namespace shoehorn {

namespace {

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

MultiLabelCounts::MultiLabelCounts(int64_t num_labels)
    : labelled_(static_cast<size_t>(num_labels)), predicted_(labelled_.size()), correct_(labelled_.size()) {
  CHECK(num_labels >= 1, "{} labels", num_labels);
}

void MultiLabelCounts::add(std::span<const float> outputs, const MicroBatch& batch) {
  add_batch(outputs, batch.floats(BatchColumn::kValueLabels).first(outputs.size()));
}

void MultiLabelCounts::add_batch(std::span<const float> logits, std::span<const float> labels) {
  const size_t classes = labelled_.size();
  CHECK(logits.size() == labels.size() && logits.size() % classes == 0,
        "{} logits and {} labels of {} classes", logits.size(), labels.size(), classes);
  for (size_t row = 0; row < logits.size(); row += classes) {
    int64_t labelled = 0, predicted = 0, correct = 0;
    for (size_t i = 0; i < classes; ++i) {
      const bool is_labelled = labels[row + i] >= 0.5F;
      const bool was_predicted = is_predicted(logits[row + i]);
      labelled_[i] += is_labelled ? 1 : 0;
      predicted_[i] += was_predicted ? 1 : 0;
      correct_[i] += is_labelled && was_predicted ? 1 : 0;
      labelled += is_labelled ? 1 : 0;
      predicted += was_predicted ? 1 : 0;
      correct += is_labelled && was_predicted ? 1 : 0;
    }
    const int64_t wrong = labelled + predicted - 2 * correct;
    ++total_;
    exact_ += wrong == 0 ? 1 : 0;
    wrong_ += wrong;
    sample_precisions_ += ratio(correct, predicted);
    sample_recalls_ += ratio(correct, labelled);
    sample_f1s_ += ratio(2 * correct, labelled + predicted);
  }
}

double MultiLabelCounts::accuracy() const {
  return ratio(exact_, total_);
}

double MultiLabelCounts::hamming_loss() const {
  return ratio(wrong_, total_ * std::ssize(labelled_));
}

double MultiLabelCounts::precision(int64_t label) const {
  const auto i = static_cast<size_t>(label);
  return ratio(correct_.at(i), predicted_.at(i));
}

double MultiLabelCounts::recall(int64_t label) const {
  const auto i = static_cast<size_t>(label);
  return ratio(correct_.at(i), labelled_.at(i));
}

double MultiLabelCounts::f1(int64_t label) const {
  const auto i = static_cast<size_t>(label);
  return ratio(2 * correct_.at(i), labelled_.at(i) + predicted_.at(i));
}

double MultiLabelCounts::micro_f1() const {
  return ratio(2 * sum(correct_), sum(labelled_) + sum(predicted_));
}

double MultiLabelCounts::macro(OfClass of) const {
  double sum = 0;
  for (int64_t label = 0; label < std::ssize(labelled_); ++label) sum += (this->*of)(label);
  return sum / static_cast<double>(labelled_.size());
}

double MultiLabelCounts::weighted(OfClass of) const {
  double weighted_sum = 0;
  for (int64_t label = 0; label < std::ssize(labelled_); ++label)
    weighted_sum += (this->*of)(label) * static_cast<double>(labelled_[static_cast<size_t>(label)]);
  const int64_t labels = sum(labelled_);
  return labels == 0 ? 0.0 : weighted_sum / static_cast<double>(labels);
}

double MultiLabelCounts::of_samples(double sum) const {
  return total_ == 0 ? 0.0 : sum / static_cast<double>(total_);
}

double MultiLabelCounts::macro_f1() const {
  return macro(&MultiLabelCounts::f1);
}

Metrics MultiLabelCounts::metrics() const {
  return {{"accuracy", accuracy()},
          {"hamming_loss", hamming_loss()},
          {"f1", micro_f1()},
          {"f1_macro", macro_f1()},
          {"precision", ratio(sum(correct_), sum(predicted_))},
          {"recall", ratio(sum(correct_), sum(labelled_))}};
}

ScoreDetails MultiLabelCounts::details(std::span<const std::string> names) const {
  CHECK(names.size() == labelled_.size(), "{} names of {} classes", names.size(), labelled_.size());
  ScoreDetails details;
  const Metrics micro = metrics();
  for (const auto& [name, of, samples] : {std::tuple<std::string, OfClass, double>(
                                              "precision", &MultiLabelCounts::precision, sample_precisions_),
                                          {"recall", &MultiLabelCounts::recall, sample_recalls_},
                                          {"f1", &MultiLabelCounts::f1, sample_f1s_}}) {
    details.averages[name + "_macro"] = macro(of);
    details.averages[name + "_micro"] = micro.at(name);
    details.averages[name + "_weighted"] = weighted(of);
    details.averages[name + "_samples"] = of_samples(samples);
  }
  for (int64_t label = 0; label < std::ssize(labelled_); ++label) {
    const auto i = static_cast<size_t>(label);
    details.classes.push_back({.name = names[i],
                               .precision = precision(label),
                               .recall = recall(label),
                               .f1 = f1(label),
                               .support = labelled_[i]});
  }
  return details;
}

}  // namespace shoehorn
