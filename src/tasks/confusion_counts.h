// The score of single-label classification: how often each class was right.
//
// C classes, S sequences. For two classes eval_f1 is the F1 of class 1, as GLUE's MRPC and QQP have it; for
// more it is the macro average. Definitions are scikit-learn's with zero_division 0: a class that is never
// predicted, or never true, has F1 0; averages run over the classes that occur as a label or as a prediction.
// Kept are three numbers a class, not the C x C table: what was which is not known, but every measure above,
// and Matthews' correlation, follow from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/score.h"

namespace shoehorn {

// Index of the largest of `logits`; of equal ones the first. A NaN counts as the largest, as in numpy, so
// that it gives a prediction like any other (the loss shows it). `logits` is not empty.
int64_t predicted_class(std::span<const float> logits);

class ConfusionCounts final : public Score {
 public:
  explicit ConfusionCounts(int64_t num_labels);

  // label in [0, C), or kIgnoredLabel: not counted. UserError for any other label; prediction in [0, C).
  void add(int64_t label, int64_t prediction);
  // `outputs`: logits.
  void add(std::span<const float> outputs, const MicroBatch& batch) override;
  // logits (S, C) row by row, labels (S).
  void add_batch(std::span<const float> logits, std::span<const int32_t> labels);
  // Sums what another has counted (a later part of the data, or another rank's). The same C.
  void merge(const ConfusionCounts& other);

  int64_t num_labels() const { return num_labels_; }
  int64_t total() const override;
  // Samples of this label; of this prediction; of both.
  int64_t labelled(int64_t label) const;
  int64_t predicted(int64_t prediction) const;
  int64_t correct(int64_t label) const;

  // 0 where nothing was counted.
  double accuracy() const;
  double precision(int64_t label) const;
  double recall(int64_t label) const;
  double f1(int64_t label) const;
  double macro_f1() const;
  double weighted_f1() const;

  // accuracy and f1; for more than two classes also f1_weighted.
  Metrics metrics() const override;

 private:
  int64_t num_labels_;
  std::vector<int64_t> labelled_, predicted_, correct_;  // (C) each
};

}  // namespace shoehorn
