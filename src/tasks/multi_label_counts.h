// Metrics of multi-label classification.
//
// C classes. Definitions are scikit-learn's with zero_division 0. eval_f1 is the micro average, over all
// classes of all texts, as in run_classification; f1_macro is the mean over the classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/score.h"

namespace shoehorn {

// True if the probability is above 0.5.
inline bool is_predicted(float logit) {
  return logit > 0;
}

class MultiLabelCounts final : public Score {
 public:
  explicit MultiLabelCounts(int64_t num_labels);

  // `outputs` are logits. A label value of 0.5 or more counts as set.
  void add(std::span<const float> outputs, const MicroBatch& batch) override;
  // logits and labels [S, C], row-major.
  void add_batch(std::span<const float> logits, std::span<const float> labels);

  int64_t total() const override { return total_; }
  // The number of samples for which exactly the right classes were predicted.
  int64_t exact() const { return exact_; }

  // Each is 0 if nothing was counted.
  double accuracy() const;  // the share of exact()
  double f1(int64_t label) const;
  double micro_f1() const;
  double macro_f1() const;

  // accuracy, f1 (micro) and f1_macro.
  Metrics metrics() const override;

 private:
  int64_t total_ = 0;
  int64_t exact_ = 0;
  std::vector<int64_t> labelled_, predicted_, correct_;  // (C) each: texts with the class, predicted so, both
};

}  // namespace shoehorn
