#include "tasks/multi_label_counts.h"

#include <numeric>

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
    bool is_exact = true;
    for (size_t i = 0; i < classes; ++i) {
      const bool is_labelled = labels[row + i] >= 0.5F;
      const bool was_predicted = is_predicted(logits[row + i]);
      labelled_[i] += is_labelled ? 1 : 0;
      predicted_[i] += was_predicted ? 1 : 0;
      correct_[i] += is_labelled && was_predicted ? 1 : 0;
      is_exact &= is_labelled == was_predicted;
    }
    ++total_;
    exact_ += is_exact ? 1 : 0;
  }
}

double MultiLabelCounts::accuracy() const {
  return ratio(exact_, total_);
}

double MultiLabelCounts::f1(int64_t label) const {
  const auto i = static_cast<size_t>(label);
  return ratio(2 * correct_.at(i), labelled_.at(i) + predicted_.at(i));
}

double MultiLabelCounts::micro_f1() const {
  return ratio(2 * sum(correct_), sum(labelled_) + sum(predicted_));
}

double MultiLabelCounts::macro_f1() const {
  double sum = 0;
  for (int64_t label = 0; label < std::ssize(labelled_); ++label) sum += f1(label);
  return sum / static_cast<double>(labelled_.size());
}

Metrics MultiLabelCounts::metrics() const {
  return {{"accuracy", accuracy()}, {"f1", micro_f1()}, {"f1_macro", macro_f1()}};
}

}  // namespace shoehorn
