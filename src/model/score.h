// What an evaluation counts, batch by batch: no outputs are kept.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>

#include "base/error.h"
#include "data/batch.h"

namespace shoehorn {

// Named results, as in log_history and all_results.json: whole numbers stay whole.
using MetricValue = std::variant<int64_t, double>;
using Metrics = std::map<std::string, MetricValue>;

double metric_number(const MetricValue& value);

// For one thread at a time.
class Score {
 public:
  virtual ~Score() = default;
  // What the model gave for the samples of a batch, [S, C] row by row, and their labels, which are in the batch.
  virtual void add(std::span<const float> outputs, const MicroBatch& batch) = 0;
  // Samples with a label so far.
  virtual int64_t total() const = 0;
  // Names without "eval_".
  virtual Metrics metrics() const = 0;
};

// The score as its task's own class. UserError where it is another's.
template <typename Kind>
const Kind& score_as(const Score& score) {
  const auto* found = dynamic_cast<const Kind*>(&score);
  if (found == nullptr)
    throw user_error("[score_as] expected the score of the model's task, asked for that of another");
  return *found;
}

}  // namespace shoehorn
