#include "data/class_weights.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace shoehorn {

double target_weight(const Dataset& dataset, int64_t sample, std::span<const float> class_weights) {
  if (class_weights.empty() || dataset.label_kind() != LabelKind::kClass)
    return static_cast<double>(dataset.target_items(sample));
  const int32_t label = dataset.class_label(sample);
  return label == kIgnoredLabel ? 0.0 : class_weights[static_cast<size_t>(label)];
}

std::vector<int64_t> count_classes(const Dataset& dataset, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  const LabelShape labels = dataset.label_shape();
  CHECK(labels.kind == LabelKind::kClass || (labels.kind == LabelKind::kValue && labels.width == classes),
        "labels that are no classes");
  std::vector<float> values(static_cast<size_t>(labels.width));
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    if (labels.kind == LabelKind::kClass) {
      const int32_t label = dataset.class_label(sample);
      if (label != kIgnoredLabel) ++counts.at(static_cast<size_t>(label));
      continue;
    }
    dataset.source().copy_value_labels(sample, values);
    for (size_t i = 0; i < values.size(); ++i) counts[i] += values[i] >= 0.5F ? 1 : 0;
  }
  return counts;
}

std::vector<float> balanced_class_weights(const Dataset& dataset, int64_t classes) {
  const std::vector<int64_t> counts = count_classes(dataset, classes);
  const bool names_one = dataset.label_kind() == LabelKind::kClass;
  const auto samples = static_cast<double>(
      names_one ? std::accumulate(counts.begin(), counts.end(), int64_t{0}) : dataset.size());
  const auto occurring =
      static_cast<double>(std::count_if(counts.begin(), counts.end(), [](int64_t n) { return n > 0; }));
  std::vector<float> weights;
  for (const int64_t count : counts) {
    const auto n = static_cast<double>(count);
    const double weight = names_one ? samples / (occurring * n) : (samples - n) / n;
    weights.push_back(count == 0 ? 1.0F : static_cast<float>(weight));
  }
  return weights;
}

}  // namespace shoehorn
