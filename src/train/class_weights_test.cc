#include "train/class_weights.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error_testing.h"
#include "data/class_weights.h"
#include "io/json_file.h"
#include "tasks/causal_language_modeling.h"
#include "tasks/make_task.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using Rows = Dataset::Rows;

Dataset labelled(const std::vector<int64_t>& labels) {
  return Dataset::from_columns({{"input_ids", Rows(labels.size(), {1, 2})}, {"labels", labels}});
}

std::shared_ptr<const Task> task_of(ProblemType problem, std::vector<std::string> names) {
  return make_task({.problem = problem, .names = std::move(names)});
}

std::vector<float> weights_given(const std::vector<std::string>& given, const Task& task,
                                 const Dataset* train = nullptr) {
  TrainingArguments args;
  args.class_weights = given;
  return class_weights_of(args, task, train);
}

TEST(ClassWeights, BalancedIsScikitLearns) {
  const nlohmann::json golden = read_json(SHOEHORN_SOURCE_DIR "/tests/golden/metrics/metrics.json");
  for (const nlohmann::json& item : golden.at("balanced")) {
    const Dataset data = labelled(item.at("labels").get<std::vector<int64_t>>());
    const std::vector<float> found = balanced_class_weights(data, 3);
    std::vector<float> expected(3, 1.0F);  // of a class that does not occur
    for (size_t i = 0; i < item.at("classes").size(); ++i)
      expected[item.at("classes")[i].get<size_t>()] = item.at("weights")[i].get<float>();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(found[i], expected[i]) << i;
  }
}

TEST(ClassWeights, BalancedPositiveWeightsAreTheOthersPerText) {
  const Dataset data =
      Dataset::from_columns({{"input_ids", Rows(4, {1})},
                             {"labels", Dataset::ValueRows{{1, 0, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}}}});
  EXPECT_EQ(balanced_class_weights(data, 3), (std::vector<float>{3, 1.0F / 3, 1}));
  EXPECT_EQ(target_weight(data, 0, std::vector<float>{3, 1, 1}), 1.0)
      << "texts, not their classes, are averaged";
}

TEST(ClassWeights, AsGiven) {
  const auto task = task_of(ProblemType::kSingleLabel, {"no", "yes", "a=b"});
  const Dataset data = labelled({0, 0, 0, 1, -100});
  EXPECT_TRUE(weights_given({}, *task).empty());
  EXPECT_EQ(weights_given({"1", "0.5", "0"}, *task), (std::vector<float>{1, 0.5F, 0}));
  EXPECT_EQ(weights_given({"a=b=3", "yes=2"}, *task), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(weights_given({"balanced"}, *task, &data), (std::vector<float>{4.0F / 6, 2, 1}));
  EXPECT_EQ(target_weight(data, 4, std::vector<float>{1, 2, 3}), 0.0);
  EXPECT_EQ(target_weight(data, 3, std::vector<float>{1, 2, 3}), 2.0);
  EXPECT_EQ(target_weight(data, 3, {}), 1.0);
  EXPECT_EQ(format_class_weights(std::vector<float>{1, 0.25F, 3}, task->label_map().names),
            "Class weights: no 1, yes 0.25, a=b 3\n");
  EXPECT_EQ(format_class_weights({}, task->label_map().names), "");
}

TEST(ClassWeights, Refusals) {
  const auto task = task_of(ProblemType::kSingleLabel, {"no", "yes", "maybe"});
  const auto refusal = [&](const std::vector<std::string>& given, const Task& of) {
    return message_of<UserError>([&] { weights_given(given, of); });
  };
  EXPECT_EQ(refusal({"1", "2"}, *task),
            "[class_weights] expected 3 numbers, one for each class (no, yes, maybe), got 2");
  EXPECT_TRUE(contains(refusal({"yse=2"}, *task),
                       "expected classes of no, yes, maybe, got 'yse'; did you mean yes?"));
  EXPECT_TRUE(contains(refusal({"yes=2", "1"}, *task), "expected a name with each number, as in no=2"));
  for (const char* bad : {"x", "-1", "nan", "inf", "1e999", ""})
    EXPECT_TRUE(contains(refusal({"1", bad, "1"}, *task), "expected balanced, numbers of 0 or more")) << bad;
  EXPECT_TRUE(contains(refusal({"0", "0", "0"}, *task), "expected a weight above 0"));
  EXPECT_TRUE(contains(refusal({"balanced"}, *task), "no training data can be counted, got balanced"));
  EXPECT_TRUE(contains(refusal({"1"}, *task_of(ProblemType::kRegression, {"score"})), "got regression"));
  EXPECT_TRUE(contains(refusal({"1"}, CausalLanguageModeling()), "got a language model"));
}

// The loss of an effective batch is divided by the sum of its labels' weights, however it is cut; an evaluation's by that
// of all its labels.
TEST(ClassWeights, AccumulatedStepsAreThoseOfOneBatch) {
  const BertForSequenceClassification model(tiny_bert());
  const auto train = [&](int64_t batch, int64_t accumulation, const std::string& order,
                         const std::vector<std::string>& weights) {
    TrainingArguments args = quiet_arguments(batch);
    args.gradient_accumulation_steps = accumulation;
    args.accumulation_order = order;
    args.label_smoothing_factor = 0.1;
    args.class_weights = weights;
    args.max_steps = 4;
    args.eval_strategy = "steps";
    args.eval_steps = 4;
    args.per_device_eval_batch_size = batch;
    Trainer trainer(model, args, tiny_samples(26, 3), tiny_samples(11, 7));
    trainer.train();
    std::vector<double> losses = logged(trainer.state(), "loss");
    const std::vector<double> evaluated = logged(trainer.state(), "eval_loss");
    losses.insert(losses.end(), evaluated.begin(), evaluated.end());
    return losses;
  };
  const std::vector<std::string> weights = {"0.2", "3", "1"};
  const std::vector<double> whole = train(12, 1, "micro_batch", weights);
  ASSERT_EQ(whole.size(), 5U);
  for (const char* order : {"micro_batch", "layer_major"}) {
    const std::vector<double> parts = train(4, 3, order, weights);
    // Adam's first steps divide small gradients by themselves: what rounding leaves of them grows.
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_NEAR(parts[i], whole[i], 2e-4 * whole[i]) << order << " " << i;
  }
  const std::vector<double> plain = train(12, 1, "micro_batch", {});
  EXPECT_GT(std::abs(plain[0] - whole[0]), 1e-3) << "the weights count";
  // All alike, they change nothing but the last bits: the mean is over the sum of the weights.
  const std::vector<double> alike = train(12, 1, "micro_batch", {"2", "2", "2"});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(alike[i], plain[i], 2e-4 * plain[i]) << i;
}

// Of one step from given weights, from the logits of the untrained model.
TEST(ClassWeights, TheLossIsThatOfTheLogits) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args;
  args.class_weights = {"0.2", "3", "1"};
  args.per_device_eval_batch_size = 4;
  const Dataset data = tiny_samples(11, 7);
  Trainer trainer(model, args, {}, data);
  std::vector<float> logits;
  trainer.predict(
      [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); });
  const std::vector<double> weights = {0.2, 3, 1};
  double loss = 0;
  double total = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto label = static_cast<size_t>(data.class_label(i));
    double sum = 0;
    for (size_t c = 0; c < 3; ++c)
      sum += std::exp(static_cast<double>(logits[static_cast<size_t>(3 * i) + c]));
    loss += weights[label] * (std::log(sum) - logits[static_cast<size_t>(3 * i) + label]);
    total += weights[label];
  }
  loss /= total;
  EXPECT_NEAR(metric_number(trainer.evaluate().at("eval_loss")), loss,
              loss_rounding_error(11, loss) + 0x1p-21);
}

}  // namespace
}  // namespace shoehorn
