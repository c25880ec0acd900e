// Evaluation metrics that accumulate batch by batch; no outputs are kept.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "data/batch.h"

namespace shoehorn {

// Metrics by name, as in log_history and all_results.json. Integers stay integers.
using MetricValue = std::variant<int64_t, double>;
using Metrics = std::map<std::string, MetricValue>;

double metric_number(const MetricValue& value);

// Not thread-safe.
class Score {
 public:
  virtual ~Score() = default;
  // Adds one batch: the model's outputs [S, C], row-major; the labels are in `batch`.
  virtual void add(std::span<const float> outputs, const MicroBatch& batch) = 0;
  // The number of labelled samples so far.
  virtual int64_t total() const = 0;
  // Metrics with names without "eval_".
  virtual Metrics metrics() const = 0;
  // The names that metrics() may have, whatever the samples are. Those of metrics(), unless some depend on the samples.
  virtual std::vector<std::string> metric_names() const;
};

// Downcasts a score to the class of the model's task. UserError if it is another class.
template <typename Kind>
const Kind& score_as(const Score& score) {
  const auto* found = dynamic_cast<const Kind*>(&score);
  if (found == nullptr)
    throw user_error("[score_as] expected the score of the model's task, asked for that of another");
  return *found;
}

}  // namespace shoehorn
