#include "model/score.h"

namespace shoehorn {

double metric_number(const MetricValue& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

}  // namespace shoehorn
