// Which command takes which flag.
#include <gtest/gtest.h>

#include "arguments/argument_table.h"
#include "base/error_testing.h"

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

TEST(ArgumentTableCommands, CommandsTakeTheirGroups) {
  const auto error_for = [](Command command, const Words& words) {
    return refusal_of([&] { parse_arguments(command, words); });
  };
  EXPECT_TRUE(contains(
      error_for(Command::kEnv, {"--learning_rate", "1"}),
      "[--learning_rate] expected a flag of the command env, got one of train, plan, anatomy, bench step, "
      "bench batch, bench quality"));
  EXPECT_EQ(error_for(Command::kEnv, {"--json", "--dtypes"}), "");
  EXPECT_TRUE(contains(error_for(Command::kEnv, {"--disable_tqdm"}),
                       "expected a flag of the command env, got one of train"));
  EXPECT_TRUE(contains(error_for(Command::kTrain, {"--dtypes"}),
                       "expected a flag of the command train, got one of env"));
  EXPECT_TRUE(contains(error_for(Command::kEval, {"--save_steps", "1"}), "of the command eval"));
  for (const Command command : {Command::kEval, Command::kPredict}) {
    for (const char* flag : {"--report_to=html", "--profile=2", "--logging_steps=1"})
      EXPECT_TRUE(contains(error_for(command, {flag}), "got one of train, plan, anatomy, bench step"));
    const char* file = command == Command::kEval ? "--validation_file=v" : "--test_file=t";
    EXPECT_EQ(error_for(command, {"--model=m", file, "--detect_anomaly"}), "");
  }
  EXPECT_TRUE(contains(error_for(Command::kTrain, {}), "[--model_name_or_path]"));
  EXPECT_TRUE(contains(error_for(Command::kTrain, {"--model_name_or_path", "m"}), "[--train_file]"));
  EXPECT_TRUE(contains(error_for(Command::kEval, {"--model_name_or_path", "m"}), "[--validation_file]"));
  EXPECT_TRUE(contains(error_for(Command::kPredict, {"--model_name_or_path", "m"}), "[--test_file]"));
  const Words train = {"--model_name_or_path", "m", "--train_file", "t.csv"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), train.begin(), train.end());
    return error_for(Command::kTrain, more);
  };
  EXPECT_EQ(with({}), "");
  EXPECT_TRUE(contains(with({"--eval_strategy", "epoch", "--task", "text-classification"}),
                       "[--validation_file] expected a file, because eval_strategy is epoch"));
  EXPECT_EQ(with({"--eval_strategy", "epoch"}), "") << "whether its file is split, the model knows";
  EXPECT_EQ(with({"--eval_strategy", "epoch", "--task", "causal-lm"}), "") << "its file is split";
  EXPECT_TRUE(contains(
      with({"--eval_strategy", "epoch", "--task", "causal-lm", "--validation_split_percentage", "0"}),
      "[--validation_file] expected a file"));
  EXPECT_TRUE(
      contains(with({"--do_eval", "--task", "text-classification"}), "do_eval needs an evaluation set"));
  EXPECT_TRUE(contains(with({"--do_predict"}), "run shoehorn predict"));
  EXPECT_EQ(with({"--eval_strategy", "epoch", "--validation_file", "v.csv"}), "");
}

// A command refuses what is of another one, by the name that was typed.
TEST(ArgumentTableCommands, CommandsTakeWhatTheyRead) {
  const auto error_for = [](Command command, Words words) {
    words.insert(words.begin(), {"--model=m", "--validation_file=v"});
    return refusal_of([&] { parse_arguments(command, words); });
  };
  EXPECT_EQ(error_for(Command::kEval, {}), "");
  for (const char* flag :
       {"--gradient_accumulation_steps=2", "--freeze=a", "--seed=7", "--train_file=t", "--test_file=t",
        "--dataloader_drop_last", "--eval_strategy=epoch", "--do_train", "--disable_tqdm"}) {
    EXPECT_TRUE(
        contains(error_for(Command::kEval, {flag}), "expected a flag of the command eval, got one of "));
  }
  EXPECT_TRUE(contains(error_for(Command::kPredict, {}),
                       "[--validation_file] expected a flag of the command predict"));
  EXPECT_TRUE(contains(error_for(Command::kTrain, {"--logits"}), "got one of predict"));
  for (const auto& [command, name] :
       std::vector<std::pair<Command, std::string>>{{Command::kAnatomy, "anatomy"},
                                                    {Command::kBenchBatch, "bench batch"},
                                                    {Command::kBenchQuality, "bench quality"},
                                                    {Command::kPlan, "plan"}}) {
    EXPECT_TRUE(contains(error_for(command, {"--dtypes"}),
                         "expected a flag of the command " + name + ", got one of env"));
    EXPECT_TRUE(contains(error_for(command, {"--no_do_train"}), "[--do_train] expected true, got false"));
  }
  EXPECT_TRUE(contains(refusal_of([] { parse_arguments(Command::kAnatomy, {}); }),
                       "[--model_name_or_path] expected a value, got nothing"));
  EXPECT_TRUE(
      contains(error_for(Command::kBenchBatch, {"--explain"}), "expected the command plan, got bench batch"));
}

TEST(ArgumentTableCommands, TrainEvaluatesOnlyWhereItIsToldNotToTrain) {
  const auto error_for = [](Words words) {
    words.insert(words.begin(), "--model=m");
    return refusal_of([&] { parse_arguments(Command::kTrain, words); });
  };
  EXPECT_EQ(error_for({"--no_do_train", "--do_eval", "--validation_file=v"}), "");
  EXPECT_EQ(error_for({"--no_do_train", "--validation_file=v"}), "");
  EXPECT_TRUE(contains(error_for({"--no_do_train", "--do_eval"}), "do_eval needs an evaluation set"));
  EXPECT_TRUE(contains(error_for({"--no_do_train"}),
                       "[--do_train] expected true, or do_eval with a validation_file"));
  EXPECT_TRUE(
      contains(error_for({"--no_do_train", "--no_do_eval", "--validation_file=v"}), "nothing is done"));
  EXPECT_TRUE(contains(error_for({"--do_train"}), "[--train_file]"));
  EXPECT_TRUE(contains(refusal_of([] {
                         parse_arguments(Command::kEval,
                                         {"--model=m", "--validation_file=v", "--no_do_eval"});
                       }),
                       "[--do_eval] expected true for eval"));
}

}  // namespace
}  // namespace shoehorn
