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

}  // namespace shoehorn
