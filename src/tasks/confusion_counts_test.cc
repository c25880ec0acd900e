#include "tasks/confusion_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"

namespace shoehorn {
namespace {

ConfusionCounts counts_of(int64_t num_labels, const std::vector<int64_t>& labels,
                          const std::vector<int64_t>& predictions) {
  ConfusionCounts counts(num_labels);
  for (size_t i = 0; i < labels.size(); ++i) counts.add(labels[i], predictions[i]);
  return counts;
}

TEST(ConfusionCounts, PredictedClass) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(predicted_class(std::vector<float>{0.1F, 0.7F, 0.3F}), 1);
  EXPECT_EQ(predicted_class(std::vector<float>{2.0F, 2.0F, 1.0F}), 0);
  EXPECT_EQ(predicted_class(std::vector<float>{-INFINITY, -INFINITY}), 0);
  EXPECT_EQ(predicted_class(std::vector<float>{9.0F, nan, nan}), 1);
  EXPECT_EQ(predicted_class(std::vector<float>{-3.0F}), 0);
}

// scikit-learn 1.5: f1_score([1,0,1,1,0,0,1], [1,1,1,0,0,0,1]) = 0.75, accuracy 5/7.
TEST(ConfusionCounts, BinaryF1IsThatOfClassOne) {
  const ConfusionCounts counts = counts_of(2, {1, 0, 1, 1, 0, 0, 1}, {1, 1, 1, 0, 0, 0, 1});
  EXPECT_EQ(counts.total(), 7);
  EXPECT_EQ(counts.labelled(1), 4);
  EXPECT_EQ(counts.predicted(1), 4);
  EXPECT_EQ(counts.correct(1), 3);
  EXPECT_DOUBLE_EQ(counts.accuracy(), 5.0 / 7.0);
  EXPECT_DOUBLE_EQ(counts.precision(1), 0.75);
  EXPECT_DOUBLE_EQ(counts.recall(1), 0.75);
  const Metrics metrics = counts.metrics();
  EXPECT_EQ(metrics.size(), 5U);
  EXPECT_DOUBLE_EQ(metric_number(metrics.at("f1")), 0.75);
  EXPECT_DOUBLE_EQ(metric_number(metrics.at("accuracy")), 5.0 / 7.0);
}

// By hand: class 0 P 1/2 R 1/2 F 1/2; class 1 P 2/3 R 2/2 F 4/5; class 2 P 1/1 R 1/2 F 2/3.
TEST(ConfusionCounts, MacroAndWeightedF1) {
  const ConfusionCounts counts = counts_of(3, {0, 0, 1, 1, 2, 2}, {0, 1, 1, 1, 2, 0});
  EXPECT_DOUBLE_EQ(counts.f1(0), 0.5);
  EXPECT_DOUBLE_EQ(counts.f1(1), 0.8);
  EXPECT_DOUBLE_EQ(counts.f1(2), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(counts.macro_f1(), (0.5 + 0.8 + 2.0 / 3.0) / 3.0);
  EXPECT_DOUBLE_EQ(counts.weighted_f1(), (2 * 0.5 + 2 * 0.8 + 2 * (2.0 / 3.0)) / 6.0);
  const Metrics metrics = counts.metrics();
  EXPECT_DOUBLE_EQ(metric_number(metrics.at("f1")), counts.macro_f1());
  EXPECT_DOUBLE_EQ(metric_number(metrics.at("f1_weighted")), counts.weighted_f1());
}

TEST(ConfusionCounts, ClassesThatNeverOccurAreNoPartOfTheMacroAverage) {
  // Class 3 occurs nowhere; class 2 is predicted once, wrongly: F1 0, and in the average.
  const ConfusionCounts counts = counts_of(4, {0, 0, 1, 1}, {0, 0, 1, 2});
  EXPECT_DOUBLE_EQ(counts.macro_f1(), (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(counts.weighted_f1(), (2 * 1.0 + 2 * (2.0 / 3.0)) / 4.0);
}

TEST(ConfusionCounts, NothingCountedIsZero) {
  const ConfusionCounts counts(2);
  EXPECT_EQ(counts.accuracy(), 0.0);
  EXPECT_EQ(counts.f1(1), 0.0);
  EXPECT_EQ(counts.macro_f1(), 0.0);
  EXPECT_EQ(counts.weighted_f1(), 0.0);
  EXPECT_DOUBLE_EQ(counts_of(2, {0, 0}, {0, 0}).f1(1), 0.0);
}

TEST(ConfusionCounts, BatchesInAnyPartsCountTheSame) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr int64_t kClasses = 5;
  constexpr int64_t kSequences = 257;
  std::vector<float> logits(kClasses * kSequences);
  std::vector<int32_t> labels(kSequences);
  for (float& logit : logits) logit = normal(random);
  for (int32_t& label : labels) label = static_cast<int32_t>(random() % 6) - 1;
  for (int32_t& label : labels) label = label < 0 ? -100 : label;
  ConfusionCounts whole(kClasses);
  whole.add_batch(logits, labels);
  ConfusionCounts parts(kClasses);
  for (size_t begin = 0; begin < labels.size();) {
    const size_t count = std::min<size_t>(1 + random() % 40, labels.size() - begin);
    ConfusionCounts part(kClasses);
    part.add_batch(std::span(logits).subspan(begin * kClasses, count * kClasses),
                   std::span(labels).subspan(begin, count));
    parts.merge(part);
    begin += count;
  }
  EXPECT_EQ(whole.total(),
            std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; }));
  for (int64_t label = 0; label < kClasses; ++label) {
    EXPECT_EQ(whole.labelled(label), parts.labelled(label));
    EXPECT_EQ(whole.predicted(label), parts.predicted(label));
    EXPECT_EQ(whole.correct(label), parts.correct(label));
    EXPECT_EQ(whole.labelled(label), std::count(labels.begin(), labels.end(), label));
  }
}

// A table of labels by predictions would take 8 TB.
TEST(ConfusionCounts, MillionClasses) {
  constexpr int64_t kClasses = 1'000'000;
  ConfusionCounts counts(kClasses);
  counts.add(kClasses - 1, kClasses - 1);
  counts.add(0, kClasses - 1);
  EXPECT_EQ(counts.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(counts.macro_f1(), (2.0 / 3.0 + 0.0) / 2.0);
  EXPECT_FALSE(counts.has_table());
  EXPECT_EQ(counts.matthews_correlation(), 0.0) << "always the same prediction";
  EXPECT_TRUE(ConfusionCounts(kMaxConfusionClasses).has_table());
}

TEST(ConfusionCounts, WrongLabelsAreTheUsersError) {
  ConfusionCounts counts(2);
  counts.add(-100, 0);
  EXPECT_EQ(counts.total(), 0);
  EXPECT_THROW(counts.add(2, 0), UserError);
  EXPECT_THROW(counts.add(-1, 0), UserError);
  EXPECT_THROW(counts.add(0, 2), InternalError);
  EXPECT_THROW(counts.add_batch(std::vector<float>(3), std::vector<int32_t>(2)), InternalError);
}

}  // namespace
}  // namespace shoehorn
