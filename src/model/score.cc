#include "model/score.h"

namespace shoehorn {

double metric_number(const MetricValue& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

std::vector<std::string> Score::metric_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics()) names.push_back(name);
  return names;
}

ScoreDetails Score::details(std::span<const std::string> /*names*/) const {
  return {};
}

void Score::keep_in(std::span<std::byte> /*memory*/) {}

Metrics ScoreDetails::metrics() const {
  Metrics all = averages;
  for (const ClassMetrics& of : classes) {
    all.insert({{"precision_" + of.name, of.precision},
                {"recall_" + of.name, of.recall},
                {"f1_" + of.name, of.f1},
                {"support_" + of.name, of.support}});
  }
  return all;
}

ScoreDetails ScoreDetails::without_absent_classes() const {
  if (!confusion) return *this;
  const size_t all = classes.size();
  std::vector<size_t> kept;
  for (size_t i = 0; i < all; ++i) {
    int64_t predicted = 0;
    for (size_t label = 0; label < all; ++label) predicted += confusion->at(label, i);
    if (classes[i].support > 0 || predicted > 0) kept.push_back(i);
  }
  ScoreDetails shown{.averages = averages, .classes = {}, .confusion = ConfusionMatrix{}};
  for (const size_t label : kept) {
    shown.classes.push_back(classes[label]);
    shown.confusion->names.push_back(confusion->names[label]);
    for (const size_t prediction : kept) shown.confusion->counts.push_back(confusion->at(label, prediction));
  }
  return shown;
}

}  // namespace shoehorn
