// The learning rates that are no function of the step alone: what the Trainer uses and logs.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "io/test_directory.h"
#include "train/accelerator.h"
#include "train/test_support.h"
#include "train/trainer.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// By metric_for_best_model, once an evaluation, and not by the one before the first step: its 0 would be the
// best for ever.
TEST(ReduceLrOnPlateau, FollowsTheMetricOfEachEvaluation) {
  TrainingArguments args = quiet_arguments(8);
  args.max_steps = 8;
  args.eval_strategy = "steps";
  args.eval_steps = 1;
  args.eval_on_start = true;
  args.metric_for_best_model = "script";
  args.lr_scheduler_type = kReduceLrOnPlateau;
  args.lr_scheduler_kwargs = {
      {"mode", std::string("min")}, {"patience", int64_t{1}}, {"factor", 0.5}, {"eps", 0.0}};
  args.warmup_steps = 3;  // no part of it
  const std::vector<double> script = {0, 5, 4, 4, 4, 1, 1, 1, 1};
  size_t evaluations = 0;
  std::vector<std::string> lines;
  TrainerOptions options;
  options.compute_metrics = [&](const Score&) { return Metrics{{"script", script.at(evaluations++)}}; };
  options.progress.on_log_line = [&](const std::string& line) { lines.push_back(line); };
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 5), tiny_samples(11, 6), std::move(options));
  trainer.train();
  EXPECT_EQ(evaluations, script.size());
  EXPECT_EQ(logged(trainer.state(), "learning_rate"),
            (std::vector<double>{1e-3, 1e-3, 1e-3, 1e-3, 5e-4, 5e-4, 5e-4, 2.5e-4}));
  const auto is_reduction = [](const std::string& line) { return line.starts_with(kReduceLrOnPlateau); };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_reduction), 2);
  EXPECT_EQ(*std::find_if(lines.begin(), lines.end(), is_reduction),
            "reduce_lr_on_plateau: learning_rate 0.0005, was 0.001");
}

// The rates are those of the updates: after a rate of 0 the weights stay.
TEST(ReduceLrOnPlateau, ARateOfZeroLeavesTheWeights) {
  TrainingArguments args = quiet_arguments(8);
  args.max_steps = 2;
  args.eval_strategy = "steps";
  args.eval_steps = 1;
  args.lr_scheduler_type = kReduceLrOnPlateau;
  // Of a threshold that nothing reaches every evaluation is a bad one.
  args.lr_scheduler_kwargs = {{"patience", int64_t{0}}, {"factor", 0.0}, {"threshold", 2.0}};
  const BertForSequenceClassification model(tiny_bert());
  Trainer two(model, args, tiny_samples(28, 5), tiny_samples(11, 6));
  two.train();
  EXPECT_EQ(logged(two.state(), "learning_rate"), (std::vector<double>{1e-3, 0}));
  args.max_steps = 1;
  Trainer one(model, args, tiny_samples(28, 5), tiny_samples(11, 6));
  one.train();
  EXPECT_TRUE(weights_of(one.session()) == weights_of(two.session()));
}

TEST(ReduceLrOnPlateau, AMetricThatIsNotThereIsNamed) {
  TrainingArguments args = quiet_arguments(8);
  args.max_steps = 1;
  args.eval_strategy = "steps";
  args.eval_steps = 1;
  args.metric_for_best_model = "rouge";
  args.lr_scheduler_type = kReduceLrOnPlateau;
  args.lr_scheduler_kwargs = {{"mode", std::string("max")}};
  const BertForSequenceClassification model(tiny_bert());
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { Trainer(model, args, tiny_samples(28, 5), tiny_samples(11, 6)).train(); }),
      "rouge"));
}

TEST(ReduceLrOnPlateau, IsNoScheduleOfALoopOfOnesOwn) {
  TrainingArguments args = quiet_arguments();
  args.eval_strategy = "epoch";
  args.lr_scheduler_type = kReduceLrOnPlateau;
  EXPECT_TRUE(contains(message_of<UserError>([&] { get_scheduler(resolved(args), 10); }),
                       "[lr_scheduler_type] expected a function of the step"));
}

class RelativeStep : public testing::Test {
 protected:
  RelativeStep() {
    args_ = quiet_arguments(8);
    args_.learning_rate = TrainingArguments().learning_rate;
    args_.max_steps = 3;
    args_.optim = "adafactor";
    args_.optim_args = {{"relative_step", true}, {"warmup_init", true}};
  }

  TrainingArguments args_;
  const BertForSequenceClassification model_{tiny_bert()};
};

TEST_F(RelativeStep, IsWhatTheLogSays) {
  Trainer trainer(model_, args_, tiny_samples(28, 5));
  trainer.train();
  EXPECT_EQ(logged(trainer.state(), "learning_rate"), (std::vector<double>{1e-6, 2e-6, 3e-6}));
  args_.optim_args["warmup_init"] = false;
  Trainer without(model_, args_, tiny_samples(28, 5));
  without.train();
  EXPECT_EQ(logged(without.state(), "learning_rate"), (std::vector<double>{1e-2, 1e-2, 1e-2}));
}

TEST_F(RelativeStep, IsWhatALoopOfOnesOwnIsTold) {
  Accelerator accelerator(args_);
  auto [prepared, optimizer, loader] = accelerator.prepare(
      model_, create_optimizer(args_), DataLoader(tiny_samples(28, 5), {.batch_size = 8}));
  std::vector<double> rates;
  for (const Batch& batch : loader) {
    accelerator.backward(prepared(batch).loss);
    accelerator.clip_grad_norm(args_.max_grad_norm);
    rates.push_back(optimizer.learning_rate());
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_EQ(rates, (std::vector<double>{1e-6, 2e-6, 3e-6, 4e-6}));
}

}  // namespace
}  // namespace shoehorn
