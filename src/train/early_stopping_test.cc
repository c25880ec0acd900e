#include "train/early_stopping.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

double number_of(const nlohmann::json& value) {
  if (value.is_number()) return value;
  const double infinity = std::numeric_limits<double>::infinity();
  return value == "nan" ? std::nan("") : value == "inf" ? infinity : -infinity;
}

// tests/golden/early_stopping_make.py wrote what transformers decides.
TEST(EarlyStopping, DecisionsEqualTransformersGoldens) {
  const nlohmann::json cases = read_json(golden("early_stopping.json"));
  ASSERT_GE(cases.size(), 100U);
  for (const nlohmann::json& item : cases) {
    TrainingArguments args;
    args.eval_strategy = "steps";
    args.metric_for_best_model = "quality";
    args.greater_is_better = item["greater_is_better"].get<bool>();
    EarlyStopping callback({.patience = item["patience"], .threshold = item["threshold"]});
    TrainerState state;
    TrainerControl control;
    callback.on_train_begin(args, state, control);
    nlohmann::json decided = nlohmann::json::array();
    for (const nlohmann::json& value : item["metrics"]) {
      ++state.global_step;
      const Metrics metrics = {{"eval_quality", number_of(value)}};
      state.log(metrics);
      callback.on_evaluate(args, state, control, metrics);
      update_best_metric(args, metrics, state);
      decided.push_back({callback.count(), control.should_training_stop});
    }
    EXPECT_EQ(decided, item["decisions"]) << item;
  }
}

TEST(EarlyStopping, NeedsAMetricAndEvaluations) {
  EarlyStopping callback({});
  TrainingArguments args;
  TrainerControl control;
  const auto refusal = [&] {
    return refusal_of([&] { callback.on_train_begin(args, TrainerState(), control); });
  };
  EXPECT_TRUE(contains(refusal(), "[metric_for_best_model] expected a metric"));
  args.metric_for_best_model = "loss";
  EXPECT_TRUE(contains(refusal(), "[eval_strategy] expected steps or epoch"));
  args.eval_strategy = "epoch";
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(contains(refusal_of([] { EarlyStopping({.patience = 0}); }), "[early_stopping_patience]"));
  EXPECT_TRUE(contains(refusal_of([] { EarlyStopping({.threshold = -1}); }), "[early_stopping_threshold]"));
}

// The fields and the file of the Trainer: tests/golden/trainer_state has them from a run of its own.
TEST(EarlyStopping, ItsStateIsWrittenAsTheTrainerWritesIt) {
  TrainerState golden_state = load_trainer_state(golden("trainer_state") / "trainer_state.json");
  CallbackList callbacks;
  const auto callback = std::make_shared<EarlyStopping>(EarlyStoppingOptions{.patience = 3});
  callbacks.add(callback);
  TrainerState state;
  callbacks.keep_states(state);
  EXPECT_EQ(to_json(state)["stateful_callbacks"]["EarlyStoppingCallback"],
            to_json(golden_state)["stateful_callbacks"]["EarlyStoppingCallback"]);
  state.other_callbacks["EarlyStoppingCallback"] =
      R"({"args": {}, "attributes": {"early_stopping_patience_counter": 2}})";
  callbacks.restore_states(state, "state.json");
  EXPECT_EQ(callback->count(), 2);
  for (const char* wrong : {"-1", "0.5", "true"}) {
    state.other_callbacks["EarlyStoppingCallback"] =
        fmt::format(R"({{"args": {{}}, "attributes": {{"early_stopping_patience_counter": {}}}}})", wrong);
    EXPECT_TRUE(contains(refusal_of([&] { callbacks.restore_states(state, "state.json"); }),
                         "[state.json: EarlyStoppingCallback: early_stopping_patience_counter] expected"));
  }
  state.other_callbacks["EarlyStoppingCallback"] = "[]";
  callbacks.restore_states(state, "state.json");
  state.other_callbacks["EarlyStoppingCallback"] = "[7]";
  EXPECT_TRUE(
      contains(refusal_of([&] { callbacks.restore_states(state, "state.json"); }), "expected an object"));
}

class EarlyStoppingRun : public testing::Test {
 protected:
  // Evaluates and saves every second step of 12. `quality` falls from the second evaluation on.
  TrainingArguments arguments(const std::string& output) const {
    TrainingArguments args = quiet_arguments(8);
    args.output_dir = (directory_.path() / output).string();
    args.max_steps = 12;
    args.eval_strategy = args.save_strategy = "steps";
    args.eval_steps = args.save_steps = 2;
    args.metric_for_best_model = "quality";
    args.load_best_model_at_end = true;
    args.early_stopping_patience = 2;
    return args;
  }

  TrainOutput train(const TrainingArguments& args, int64_t earlier_evaluations = 0) {
    TrainerOptions options;
    options.compute_metrics = [calls = earlier_evaluations](const Score&) mutable {
      const double values[] = {0.5, 0.6, 0.55, 0.5, 0.4, 0.3};
      return Metrics{{"quality", values[std::min<int64_t>(calls++, 5)]}};
    };
    options.progress.on_log_line = [this](const std::string& line) { lines_ += line + "\n"; };
    options.on_line = options.progress.on_log_line;
    Trainer trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), std::move(options));
    const TrainOutput output = trainer.train();
    state_ = trainer.state();
    return output;
  }

  const TestDirectory directory_;
  const BertForSequenceClassification model_{tiny_bert()};
  std::string lines_;
  TrainerState state_;
};

TEST_F(EarlyStoppingRun, EndsWithTheBestModel) {
  EXPECT_EQ(train(arguments("out")).global_step, 8);
  EXPECT_EQ(state_.best_global_step, 4);
  EXPECT_TRUE(
      contains(lines_, "early stopping at step 8: eval_quality did not improve in the last 2 evaluations"));
  EXPECT_TRUE(contains(lines_, "loaded the best model, of " + arguments("out").output_dir + "/checkpoint-4"));
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(arguments("out").output_dir) / "checkpoint-8"));
}

// Killed behind the checkpoint of step 6, where one evaluation had not improved.
TEST_F(EarlyStoppingRun, AResumedRunGoesOnCounting) {
  train(arguments("out"));
  std::filesystem::remove_all(directory_.path() / "out" / "checkpoint-8");
  TrainingArguments args = arguments("out");
  args.resume_from_checkpoint = "true";
  EXPECT_EQ(train(args, 3).global_step, 8);
}

// Killed behind the last checkpoint, before the end: there is nothing left to do. With more patience there is.
TEST_F(EarlyStoppingRun, ARunThatStoppedStopsAgain) {
  train(arguments("out"));
  TrainingArguments args = arguments("out");
  args.resume_from_checkpoint = "true";
  EXPECT_EQ(train(args, 4).global_step, 8);
  args.early_stopping_patience = 3;
  EXPECT_EQ(train(args, 4).global_step, 10);
}

TEST_F(EarlyStoppingRun, ItsMetricIsTheLossUnlessOneIsGiven) {
  TrainingArguments args = arguments("out");
  args.metric_for_best_model = "";
  args.load_best_model_at_end = false;
  args.save_strategy = "no";
  args.early_stopping_threshold = 1e9;
  EXPECT_EQ(train(args).global_step, 6) << "the first evaluation counts as an improvement, and no other does";
  EXPECT_TRUE(contains(lines_, "eval_loss did not improve"));
  EXPECT_TRUE(contains(lines_, "early stopping ends with the last step's weights"));
}

}  // namespace
}  // namespace shoehorn
