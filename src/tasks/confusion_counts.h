// Metrics of single-label classification.
//
// C classes, S sequences. With two classes, eval_f1, eval_precision and eval_recall are those of class 1, as in GLUE's
// MRPC and QQP; with more they are macro averages. Definitions are scikit-learn's with zero_division 0: a class that is
// never predicted, or never true, has F1 0, and averages run over the classes that occur as a label or a
// prediction. All metrics follow from three counts per class; the C x C table is there for people to read, and is kept of
// up to kMaxConfusionClasses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/score.h"

namespace shoehorn {

// The index of the largest logit; the first of equal ones. A NaN counts as the largest, as in numpy, so that
// it still yields a prediction (the loss shows the NaN). `logits` is not empty.
int64_t predicted_class(std::span<const float> logits);

inline constexpr int64_t kMaxConfusionClasses = 128;

class ConfusionCounts final : public Score {
 public:
  explicit ConfusionCounts(int64_t num_labels);

  // `label` in [0, C), or kIgnoredLabel (not counted); UserError for any other. `prediction` in [0, C).
  void add(int64_t label, int64_t prediction);
  // `outputs` are logits.
  void add(std::span<const float> outputs, const MicroBatch& batch) override;
  // logits [S, C], row-major; labels [S].
  void add_batch(std::span<const float> logits, std::span<const int32_t> labels);
  // Adds the counts of another object with the same C (a later part of the data, or another rank's).
  void merge(const ConfusionCounts& other);

  int64_t num_labels() const { return num_labels_; }
  int64_t total() const override;
  // The number of samples with this label; with this prediction; with both.
  int64_t labelled(int64_t label) const;
  int64_t predicted(int64_t prediction) const;
  int64_t correct(int64_t label) const;
  // The number of samples with this label and this prediction. CHECKs that the table is kept.
  bool has_table() const { return !table_.empty(); }
  int64_t count(int64_t label, int64_t prediction) const;

  // Each is 0 if nothing was counted.
  double accuracy() const;
  double precision(int64_t label) const;
  double recall(int64_t label) const;
  double f1(int64_t label) const;
  double macro_f1() const;
  double weighted_f1() const;
  // Of C classes, Gorodkin's R_K (2004); 0 if labels or predictions are all of one class.
  double matthews_correlation() const;

  // accuracy, f1, precision, recall and matthews_correlation; for more than two classes also f1_weighted.
  Metrics metrics() const override;
  // precision, recall and f1, each _macro, _micro (which is the accuracy) and _weighted (by the labels of a class).
  ScoreDetails details(std::span<const std::string> names) const override;

 private:
  using OfClass = double (ConfusionCounts::*)(int64_t label) const;
  double macro(OfClass of) const;
  double weighted(OfClass of) const;

  int64_t num_labels_;
  std::vector<int64_t> labelled_, predicted_, correct_;  // (C) each
  std::vector<int64_t> table_;                           // [C, C], or none: labels by predictions
};

}  // namespace shoehorn
