#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class Evaluation : public testing::Test {
 protected:
  Evaluation() : model_(tiny_bert()) {}

  EvaluationResult run(const Dataset& data, int64_t batch_size, int64_t padding = 0) {
    SessionOptions options;
    options.kind = RunKind::kEvaluate;
    options.evaluation = batch_capacity_of(data, batch_size, padding);
    options.executor.poison = true;
    Session session(model_, options);
    session.reserve();
    initialize_weights(session.state(), session.executor(), 4);
    logits_.clear();
    progress_.clear();
    return evaluate(
        session, data, model_.task(),
        {.batch_size = batch_size,
         .pad_to_max_length = padding,
         .on_outputs =
             [this](std::span<const float> rows) { logits_.insert(logits_.end(), rows.begin(), rows.end()); },
         .on_progress = [this](int64_t samples) { progress_.push_back(samples); }});
  }

  double largest_logit() const {
    double largest = 0;
    for (const float logit : logits_) largest = std::max(largest, std::abs(static_cast<double>(logit)));
    return largest;
  }

  BertForSequenceClassification model_;
  std::vector<float> logits_;
  std::vector<int64_t> progress_;
};

// The mean is over samples, not over batches: a short last batch weighs less.
TEST_F(Evaluation, DoesNotDependOnTheBatch) {
  const Dataset data = tiny_samples(13, 3);
  const EvaluationResult whole = run(data, 13);
  const std::vector<float> logits = logits_;
  EXPECT_EQ(whole.samples, 13);
  EXPECT_EQ(whole.score->total(), 13);
  double loss = 0;
  for (int64_t i = 0; i < 13; ++i) {
    double sum = 0;
    for (size_t c = 0; c < 3; ++c)
      sum += std::exp(static_cast<double>(logits[static_cast<size_t>(3 * i) + c]));
    loss += (std::log(sum) - logits[static_cast<size_t>(3 * i + data.class_label(i))]) / 13;
  }
  EXPECT_NEAR(whole.loss.mean, loss, loss_rounding_error(13, loss));
  // Products of other sizes may group their sums otherwise. A loss follows its logits, one to one at most.
  const double of_logits = rounding_error(kTinyBertRoundings, largest_logit());
  const double of_loss = of_logits + loss_rounding_error(13, loss);
  for (const int64_t batch : {1, 4, 5}) {
    const EvaluationResult parts = run(data, batch);
    EXPECT_EQ(parts.batches, (13 + batch - 1) / batch);
    EXPECT_NEAR(parts.loss.mean, whole.loss.mean, of_loss) << batch;
    ASSERT_EQ(logits_.size(), logits.size());
    for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits_[i], logits[i], of_logits);
    EXPECT_EQ(progress_.back(), 13);
  }
  const EvaluationResult padded = run(data, 4, 24);
  EXPECT_NEAR(padded.loss.mean, whole.loss.mean, of_loss);
}

TEST_F(Evaluation, WithoutLabels) {
  const EvaluationResult result =
      run(Dataset::from_columns({{"input_ids", Dataset::Rows{{1, 2}, {3}, {4, 5, 6}}}}), 2);
  EXPECT_EQ(result.loss.mean, 0);
  EXPECT_EQ(result.score->total(), 0);
  EXPECT_EQ(logits_.size(), 9U);
  const Metrics metrics = evaluation_metrics(result);
  for (const char* name : {"eval_loss", "eval_accuracy", "eval_f1", "eval_f1_weighted"})
    EXPECT_FALSE(metrics.contains(name)) << name << " of 0 would be a result";
  EXPECT_TRUE(metrics.contains("eval_runtime"));
}

TEST_F(Evaluation, IgnoredLabelsDoNotCount) {
  const Dataset::Rows ids = {{1, 2}, {3}, {4, 5, 6}};
  const EvaluationResult some =
      run(Dataset::from_columns({{"input_ids", ids}, {"labels", std::vector<int64_t>{1, -100, 2}}}), 2);
  EXPECT_EQ(some.score->total(), 2);
  const EvaluationResult two = run(Dataset::from_columns({{"input_ids", Dataset::Rows{{1, 2}, {4, 5, 6}}},
                                                          {"labels", std::vector<int64_t>{1, 2}}}),
                                   2);
  EXPECT_NEAR(some.loss.mean, two.loss.mean,
              rounding_error(kTinyBertRoundings, largest_logit()) + loss_rounding_error(2, two.loss.mean));
}

TEST_F(Evaluation, MetricsHaveTransformersNames) {
  const Metrics metrics = evaluation_metrics(run(tiny_samples(13, 3), 4));
  for (const char* name : {"eval_loss", "eval_accuracy", "eval_f1", "eval_runtime", "eval_samples_per_second",
                           "eval_steps_per_second"}) {
    EXPECT_TRUE(metrics.contains(name)) << name;
  }
}

// What a metric needs of all outputs is kept in the planned memory.
TEST(EvaluationOfARegression, RanksArePlanned) {
  BertConfig config = tiny_bert();
  config.labels = {.problem = ProblemType::kRegression, .names = {"value"}};
  const BertForSequenceClassification model(config);
  Dataset::Rows ids;
  std::vector<float> values;
  for (int64_t i = 0; i < 13; ++i) {
    ids.push_back({1 + i % 5, 2 + i});
    values.push_back(static_cast<float>(i % 4));
  }
  const Dataset data = Dataset::from_columns({{"input_ids", ids}, {"labels", values}});
  SessionOptions options;
  options.kind = RunKind::kEvaluate;
  options.evaluation = batch_capacity_of(data, 4, 0);
  double expected = 0;
  for (const bool is_planned : {false, true}) {
    options.score_bytes = is_planned ? model.task().score_bytes(data.size()) : 0;
    Session session(model, options);
    session.reserve();
    initialize_weights(session.state(), session.executor(), 4);
    EXPECT_EQ(std::ssize(session.score_memory()), options.score_bytes);
    const EvaluationResult result = evaluate(session, data, model.task(), {.batch_size = 4});
    const double found = metric_number(result.score->metrics().at("spearmanr"));
    if (is_planned) {
      EXPECT_EQ(found, expected);
      EXPECT_EQ(options.score_bytes, 13 * 16);
      const auto bytes = session.score_memory();
      EXPECT_TRUE(
          std::any_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{}; }));
    }
    expected = found;
  }
  EXPECT_TRUE(std::abs(expected) <= 1) << expected;
}

TEST(CommonMetricName, IsGlues) {
  EXPECT_EQ(common_metric_name("mcc"), "matthews_correlation");
  EXPECT_EQ(common_metric_name("eval_spearman"), "eval_spearmanr");
  EXPECT_EQ(common_metric_name("eval_loss"), "eval_loss");
  EXPECT_EQ(common_metric_name("mccabe"), "mccabe");
}

}  // namespace
}  // namespace shoehorn
