#include "arguments/idle_settings.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

Words notices_of(const Words& more, bool evaluates = true, const char* task = "text-classification") {
  Words words = {"--model_name_or_path", "m", "--train_file", "t.csv", "--output_dir", "o"};
  words.insert(words.end(), more.begin(), more.end());
  return notices_of_idle_settings(parse_arguments(Command::kTrain, words), evaluates, task);
}

TEST(IdleSettings, EachIsNamedWithWhatMakesItSo) {
  EXPECT_EQ(notices_of({"--save_strategy", "no", "--save_steps", "3", "--save_total_limit", "2"}),
            (Words{"save_steps has no effect: save_strategy is no",
                   "save_total_limit has no effect: save_strategy is no"}));
  EXPECT_EQ(notices_of({"--eval_steps", "5", "--eval_delay", "1"}),
            (Words{"eval_steps has no effect: eval_strategy is no",
                   "eval_delay has no effect: eval_strategy is no"}));
  EXPECT_EQ(notices_of({"--max_steps", "5", "--num_train_epochs", "2"}),
            Words{"num_train_epochs has no effect: max_steps is set"});
  EXPECT_EQ(notices_of({"--warmup_ratio", "0.1", "--warmup_steps", "5"}),
            Words{"warmup_ratio has no effect: warmup_steps is set"});
  EXPECT_EQ(notices_of({"--optim", "sgd", "--adam_beta1", "0.8", "--adam_epsilon", "1e-6"}),
            (Words{"adam_beta1 has no effect: optim is sgd", "adam_epsilon has no effect: optim is sgd"}));
  EXPECT_EQ(notices_of({"--max_eval_samples", "4"}, false),
            Words{"max_eval_samples has no effect: nothing is evaluated"});
  EXPECT_EQ(
      notices_of({"--metric_for_best_model", "f1"}),
      Words{
          "metric_for_best_model has no effect: load_best_model_at_end is false, and nothing else asks for the "
          "best model"});
  EXPECT_EQ(notices_of({"--test_file", "x.csv"}),
            Words{"test_file has no effect: train predicts nothing; shoehorn predict does"});
  EXPECT_EQ(notices_of({"--lr_scheduler_type", "constant", "--warmup_ratio", "0.1"}),
            Words{"warmup_ratio has no effect: lr_scheduler_type is constant"});
  EXPECT_EQ(notices_of({"--train_sampling_strategy", "sequential", "--data_seed", "3"}),
            Words{"data_seed has no effect: train_sampling_strategy is sequential"});
  EXPECT_EQ(notices_of({"--run_name", "a", "--logging_dir", "d"}),
            (Words{"run_name has no effect: report_to asks for no report in HTML",
                   "logging_dir has no effect: report_to asks for no files of TensorBoard"}));
  EXPECT_EQ(notices_of({"--problem_type", "regression", "--label_column_name", "l"}, true, "causal-lm"),
            (Words{"problem_type has no effect: task is causal-lm",
                   "label_column_name has no effect: task is causal-lm"}));
  EXPECT_EQ(notices_of({"--zero_prefetch_layers", "2", "--ddp_bucket_cap_mb", "5"}),
            (Words{"ddp_bucket_cap_mb has no effect: there is one rank",
                   "zero_prefetch_layers has no effect: zero_stage is 0"}));
}

TEST(IdleSettings, WhatIsReadIsNotAmongThem) {
  EXPECT_EQ(notices_of({"--save_steps", "3", "--save_total_limit", "2", "--logging_steps", "2",
                        "--num_train_epochs", "2", "--warmup_ratio", "0.1", "--adam_beta1", "0.8"}),
            Words{});
  EXPECT_EQ(notices_of({"--report_to", "all", "--run_name", "a", "--logging_dir", "d", "--data_seed", "3",
                        "--max_seq_length", "64", "--label_column_name", "l"}),
            Words{});
  EXPECT_EQ(notices_of({"--block_size", "64"}, true, "causal-lm"), Words{});
  EXPECT_EQ(notices_of({"--optim", "lion_32bit", "--adam_beta2", "0.95"}), Words{});
  EXPECT_EQ(notices_of({"--optim", "adamw_8bit", "--adam_epsilon", "1e-6"}), Words{});
  EXPECT_EQ(notices_of({"--validation_file", "v.csv", "--eval_strategy", "steps", "--eval_steps", "5",
                        "--save_steps", "5", "--max_eval_samples", "4", "--load_best_model_at_end",
                        "--metric_for_best_model", "f1", "--greater_is_better"}),
            Words{});
  EXPECT_EQ(notices_of({"--validation_split_percentage", "10", "--per_device_eval_batch_size", "4"}),
            Words{});
}

// The default of a row that a configuration file repeats is nothing that somebody set.
TEST(IdleSettings, DefaultsAreNotSet) {
  EXPECT_EQ(notices_of({}), Words{});
}

}  // namespace
}  // namespace shoehorn
