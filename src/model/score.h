// Evaluation metrics that accumulate batch by batch. Outputs are kept only where a metric needs all of them at once, in
// memory that the session lends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

// What evaluations say of one class.
struct ClassMetrics {
  std::string name;
  double precision = 0;
  double recall = 0;
  double f1 = 0;
  int64_t support = 0;  // samples with this label
};

// How often samples of one class were taken for another. C classes.
struct ConfusionMatrix {
  std::vector<std::string> names;  // C
  std::vector<int64_t> counts;     // [C, C], row-major: a label's row, a prediction's column

  int64_t at(size_t label, size_t prediction) const { return counts[label * names.size() + prediction]; }
};

// What is too much for each line of a log.
struct ScoreDetails {
  Metrics averages;                          // further ones, with names without "eval_"
  std::vector<ClassMetrics> classes;         // none: the task has no classes
  std::optional<ConfusionMatrix> confusion;  // none: not of this task, or of too many classes

  // averages and, unless an average has the name, precision_NAME, recall_NAME, f1_NAME and support_NAME of each class.
  Metrics metrics() const;
  // For people: without the classes that no sample has as its label and no prediction names, where the confusion matrix
  // tells.
  ScoreDetails without_absent_classes() const;
};

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
  // What the metrics leave out. `names`: of the classes, the task's.
  virtual ScoreDetails details(std::span<const std::string> names) const;
  // Keeps what it keeps of outputs in `memory`, Task::score_bytes() of the samples to come, which outlives this object.
  // Call it before the first batch; otherwise the score allocates as it grows.
  virtual void keep_in(std::span<std::byte> memory);
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
