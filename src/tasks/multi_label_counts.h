// Metrics of multi-label classification.
//
// C classes. Definitions are scikit-learn's with zero_division 0. eval_f1, eval_precision and eval_recall are micro
// averages, over all classes of all texts, as run_classification's F1; _macro is the mean over the classes, _weighted that
// by the texts that have a class, _samples the mean over the texts.
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
  double accuracy() const;      // the share of exact()
  double hamming_loss() const;  // the share of classes of texts that were predicted wrongly
  double precision(int64_t label) const;
  double recall(int64_t label) const;
  double f1(int64_t label) const;
  double micro_f1() const;
  double macro_f1() const;

  // accuracy, hamming_loss, f1, precision and recall (micro), and f1_macro.
  Metrics metrics() const override;
  // precision, recall and f1, each _macro, _micro, _weighted and _samples.
  ScoreDetails details(std::span<const std::string> names) const override;

 private:
  using OfClass = double (MultiLabelCounts::*)(int64_t label) const;
  double macro(OfClass of) const;
  double weighted(OfClass of) const;
  double of_samples(double sum) const;

  int64_t total_ = 0;
  int64_t exact_ = 0;
  int64_t wrong_ = 0;                                                   // classes of texts
  double sample_precisions_ = 0, sample_recalls_ = 0, sample_f1s_ = 0;  // sums over texts
  std::vector<int64_t> labelled_, predicted_, correct_;  // (C) each: texts with the class, predicted so, both
};

}  // namespace shoehorn
