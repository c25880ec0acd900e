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

}  // namespace shoehorn
