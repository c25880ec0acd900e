// The tasks that there are: what each takes, scores and writes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "base/error_testing.h"
#include "tasks/make_task.h"
#include "tasks/multi_label_counts.h"
#include "tasks/regression_errors.h"

namespace shoehorn {
namespace {

using Rows = Dataset::Rows;

std::shared_ptr<const Task> task_of(ProblemType problem, std::vector<std::string> names) {
  return make_task({.problem = problem, .names = std::move(names)});
}

std::string refusal(const Task& task, const Dataset& dataset) {
  return message_of<UserError>([&] { task.check_labels(dataset, "training"); });
}

TEST(Tasks, NumbersOfLabels) {
  EXPECT_TRUE(contains(message_of<UserError>([] { task_of(ProblemType::kSingleLabel, {"only"}); }),
                       "[labels] expected from 2 to 1048576 labels"));
  EXPECT_TRUE(contains(message_of<UserError>([] { task_of(ProblemType::kRegression, {}); }), "from 1 to"));
  EXPECT_EQ(task_of(ProblemType::kMultiLabel, {"only"})->num_labels(), 1);
}

TEST(Tasks, LabelsOfADataSetHaveToFit) {
  const Dataset classes = Dataset::from_columns(
      {{"input_ids", Rows{{1}, {2}, {3}}}, {"labels", std::vector<int64_t>{0, -100, 1}}});
  const Dataset values =
      Dataset::from_columns({{"input_ids", Rows{{1}, {2}}}, {"labels", std::vector<double>{0.5, 3}}});
  const Dataset pairs = Dataset::from_columns(
      {{"input_ids", Rows{{1}, {2}}}, {"labels", Dataset::ValueRows{{0, 1}, {1, 0.5}}}});
  const auto single = task_of(ProblemType::kSingleLabel, {"a", "b"});
  const auto multi = task_of(ProblemType::kMultiLabel, {"a", "b"});
  const auto score = task_of(ProblemType::kRegression, {"score"});
  EXPECT_NO_THROW(single->check_labels(classes, "training"));
  EXPECT_NO_THROW(multi->check_labels(pairs, "training"));
  EXPECT_NO_THROW(score->check_labels(values, "training"));
  EXPECT_TRUE(contains(refusal(*single, values), "got one number a sample"));
  EXPECT_TRUE(contains(refusal(*score, classes), "got one class a sample"));
  EXPECT_TRUE(
      contains(refusal(*score, pairs), "expected one number a sample as label, for regression, got 2"));
  EXPECT_TRUE(contains(refusal(*multi, values), "expected 2 numbers a sample as label"));
  EXPECT_TRUE(
      contains(refusal(*task_of(ProblemType::kMultiLabel, {"a"}), values),
               "expected finite numbers from 0 to 1 as labels, for multi_label_classification, got 3 in "
               "sample 1"));
  const Dataset infinite = Dataset::from_columns(
      {{"input_ids", Rows{{1}, {2}}}, {"labels", std::vector<double>{0.5, std::nan("")}}});
  EXPECT_TRUE(
      contains(refusal(*score, infinite), "expected finite numbers as labels, for regression, got nan"));
  const Dataset none = Dataset::from_columns({{"input_ids", Rows{{1}}}});
  for (const auto& task : {single, multi, score}) EXPECT_NO_THROW(task->check_labels(none, "evaluation"));
}

TEST(Tasks, Predictions) {
  const auto single = task_of(ProblemType::kSingleLabel, {"down", "up"});
  EXPECT_EQ(single->prediction_form(), PredictionForm::kClass);
  const Prediction one = single->prediction(std::vector{0.0F, std::log(3.0F)});
  EXPECT_EQ(one.classes, std::vector<int64_t>{1});
  ASSERT_EQ(one.scores.size(), 2U);
  EXPECT_NEAR(one.scores[0], 0.25, 1e-7);
  EXPECT_NEAR(one.scores[1], 0.75, 1e-7);
  const auto multi = task_of(ProblemType::kMultiLabel, {"a", "b", "c"});
  EXPECT_EQ(multi->prediction_form(), PredictionForm::kClasses);
  const Prediction some = multi->prediction(std::vector{std::log(3.0F), 0.0F, -1000.0F});
  EXPECT_EQ(some.classes, std::vector<int64_t>{0}) << "a half is not above a half";
  ASSERT_EQ(some.scores.size(), 3U);
  EXPECT_NEAR(some.scores[0], 0.75, 1e-7);
  EXPECT_EQ(some.scores[1], 0.5);
  EXPECT_EQ(some.scores[2], 0.0);
  EXPECT_TRUE(multi->prediction(std::vector{-1.0F, -1.0F, -1.0F}).classes.empty());
  const auto values = task_of(ProblemType::kRegression, {"joy", "anger"});
  EXPECT_EQ(values->prediction_form(), PredictionForm::kValues);
  const Prediction numbers = values->prediction(std::vector{1.5F, -2.0F});
  EXPECT_EQ(numbers.scores, (std::vector<double>{1.5, -2}));
  EXPECT_TRUE(numbers.classes.empty());
}

// scikit-learn 1.5 of y = [[1,0,1],[0,1,0],[1,1,0],[0,0,0]], p = [[1,0,0],[0,1,0],[1,1,1],[0,0,0]]: accuracy_score
// 0.5; f1_score micro 0.8, macro 2/3 (1, 1 and 0).
TEST(MultiLabelCounts, AsScikitLearn) {
  const std::vector<float> labels = {1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0};
  const std::vector<float> logits = {2, -1, -1, -3, 1, -1, 1, 1, 1, -1, -1, -1};
  MultiLabelCounts whole(3);
  EXPECT_EQ(metric_number(whole.metrics().at("f1")), 0) << "nothing was counted";
  whole.add_batch(logits, labels);
  EXPECT_EQ(whole.total(), 4);
  EXPECT_EQ(whole.exact(), 2);
  EXPECT_DOUBLE_EQ(whole.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(whole.micro_f1(), 0.8);
  EXPECT_DOUBLE_EQ(whole.macro_f1(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(whole.f1(2), 0);
  MultiLabelCounts parts(3);
  for (size_t row = 0; row < labels.size(); row += 3)
    parts.add_batch(std::span(logits).subspan(row, 3), std::span(labels).subspan(row, 3));
  EXPECT_EQ(parts.metrics(), whole.metrics());
  EXPECT_THROW(parts.add_batch(logits, std::vector<float>(3)), InternalError);
}

TEST(RegressionErrors, AgainstTheDefinitions) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  constexpr size_t kSamples = 1000;
  std::vector<float> predictions(kSamples);
  std::vector<float> labels(kSamples);
  // A large mean beside the deviations, where sums of squares would cancel.
  for (size_t i = 0; i < kSamples; ++i) {
    labels[i] = 4096 + normal(random);
    predictions[i] = labels[i] + 0.5F * normal(random);
  }
  long double mean_p = 0, mean_l = 0, mse = 0, mae = 0, pp = 0, ll = 0, pl = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    mean_p += predictions[i] / static_cast<long double>(kSamples);
    mean_l += labels[i] / static_cast<long double>(kSamples);
  }
  for (size_t i = 0; i < kSamples; ++i) {
    const long double error = static_cast<long double>(predictions[i]) - labels[i];
    mse += error * error / kSamples;
    mae += std::abs(error) / kSamples;
    pp += (predictions[i] - mean_p) * (predictions[i] - mean_p);
    ll += (labels[i] - mean_l) * (labels[i] - mean_l);
    pl += (predictions[i] - mean_p) * (labels[i] - mean_l);
  }
  RegressionErrors errors(1);
  for (size_t i = 0; i < kSamples; i += 100)
    errors.add_batch(std::span(predictions).subspan(i, 100), std::span(labels).subspan(i, 100));
  EXPECT_EQ(errors.total(), 1000);
  // Sums of a thousand terms in double, of which the running means carry a rounding of 4096 each.
  const double tolerance = 1000 * 0x1p-53 * 4096;
  EXPECT_NEAR(errors.mean_squared_error(), static_cast<double>(mse), tolerance);
  EXPECT_NEAR(errors.mean_absolute_error(), static_cast<double>(mae), tolerance);
  EXPECT_NEAR(errors.pearson(), static_cast<double>(pl / std::sqrt(pp * ll)), tolerance);
  EXPECT_EQ(errors.metrics().size(), 5U);
}

TEST(RegressionErrors, NoCorrelationOfWhatDoesNotVary) {
  RegressionErrors flat(1);
  flat.add_batch(std::vector<float>{1, 1}, std::vector<float>{0, 2});
  EXPECT_TRUE(std::isnan(flat.pearson()));
  EXPECT_TRUE(std::isnan(flat.spearman()));
  EXPECT_TRUE(std::isnan(metric_number(flat.metrics().at("pearson")))) << "as the Trainer writes it";
  RegressionErrors two(2);
  two.add_batch(std::vector<float>{1, 2, 3, 4}, std::vector<float>{1, 2, 3, 8});
  EXPECT_EQ(two.total(), 2);
  EXPECT_EQ(two.metrics(), (Metrics{{"mse", 4.0}, {"rmse", 2.0}, {"mae", 1.0}})) << "of all values";
  RegressionErrors broken(1);
  broken.add_batch(std::vector<float>{1, std::nanf(""), 3}, std::vector<float>{1, 2, 3});
  EXPECT_TRUE(std::isnan(broken.spearman())) << "what is no number has no rank";
}

TEST(Score, AsItsOwnClass) {
  const std::unique_ptr<Score> score = task_of(ProblemType::kRegression, {"score"})->make_score();
  EXPECT_EQ(score_as<RegressionErrors>(*score).total(), 0);
  EXPECT_THROW(score_as<MultiLabelCounts>(*score), UserError);
}

}  // namespace
}  // namespace shoehorn
