// training_args.json of a run starts the same run again.
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

class CliTrainingArgs : public CliTest {
 protected:
  fs::path arguments_file() const { return output() / "training_args.json"; }
};

// The file names the model that the run began with, and not the one that it made.
TEST_F(CliTrainingArgs, EvalAndPredictSayWhichModelTheFileNames) {
  ASSERT_EQ(run(train_words({"--save_strategy", "no"})).exit_code, 0);
  const std::vector<std::string> eval = {"eval", "--config", arguments_file(), "--validation_file",
                                         path("validation.csv")};
  const std::string said = "as --config says; with --model_name_or_path " + output().string();
  const ProgramRun evaluated = run(eval);
  EXPECT_TRUE(contains(evaluated.output, "evaluates " + model().string() + ", " + said)) << evaluated.output;
  EXPECT_TRUE(
      contains(run({"predict", "--config", arguments_file(), "--test_file", path("validation.csv")}).output,
               "predicts with " + model().string() + ", " + said));
  std::vector<std::string> of_trained = eval;
  of_trained.insert(of_trained.end(), {"--model_name_or_path", output()});
  EXPECT_FALSE(contains(run(of_trained).output, "as --config says"));
}

TEST_F(CliTrainingArgs, TheFileStartsTheSameRun) {
  const std::vector<std::string> words = train_words({"--validation_file",
                                                      path("validation.csv"),
                                                      "--optim",
                                                      "sgd",
                                                      "--optim_args",
                                                      "momentum=0.9",
                                                      "--learning_rate",
                                                      "0.1",
                                                      "--eval_strategy",
                                                      "steps",
                                                      "--report_to",
                                                      "none",
                                                      "--save_steps",
                                                      "2",
                                                      "--lr_scheduler_type",
                                                      "cosine",
                                                      "--gradient_checkpointing",
                                                      "--memory_budget",
                                                      "4GiB",
                                                      "--freeze",
                                                      "embeddings,layer.0",
                                                      "--warmup_ratio",
                                                      "0.25"});
  ASSERT_EQ(run(words).exit_code, 0);
  const json first = read_json(arguments_file());
  EXPECT_EQ(first["learning_rate"], 0.1);
  EXPECT_EQ(first["output_dir"], output().string());
  TrainingArguments meant = parse_arguments(Command::kTrain, {words.begin() + 1, words.end()}).arguments;
  meant.text_column_names = {"text"};  // as they were found
  meant.label_column_name = "label";
  EXPECT_EQ(parse_arguments(Command::kTrain, {"--config", arguments_file()}).arguments, meant);

  const std::vector<std::string> files = written();
  const std::string weights = read_text_file(output() / "model.safetensors");
  const std::string optimizer = read_text_file(output() / "checkpoint-4" / "optimizer.safetensors");
  fs::rename(output(), path("before"));
  const ProgramRun again = run({"train", (path("before") / "training_args.json").string()});
  ASSERT_EQ(again.exit_code, 0) << again.error;
  EXPECT_EQ(written(), files);
  EXPECT_EQ(read_json(arguments_file()), first);
  EXPECT_EQ(read_text_file(output() / "model.safetensors"), weights);
  EXPECT_EQ(read_text_file(output() / "checkpoint-4" / "optimizer.safetensors"), optimizer);
}

// The command line overrides the file; what does not begin writes none.
TEST_F(CliTrainingArgs, AsAnyConfigurationFile) {
  ASSERT_EQ(run(train_words()).exit_code, 0);
  const ProgramRun other =
      run({"train", "--config", arguments_file(), "--max_steps", "1", "--output_dir", path("other")});
  ASSERT_EQ(other.exit_code, 0) << other.error;
  EXPECT_EQ(read_json(path("other") / "training_args.json")["max_steps"], 1);
  json changed = read_json(arguments_file());
  changed["of_another_version"] = 1;
  directory_.write("changed.json", changed.dump());
  expect_failure({"train", "--config", path("changed.json")}, 2, {"changed.json", "of_another_version"});
  fs::remove_all(output());
  expect_failure(train_words({"--memory_budget", "1MiB"}), 2, {"[memory]"});
  EXPECT_FALSE(fs::exists(arguments_file()));
}

// A limit of the model lowers the default length, and refuses none: a file that has every flag gives none of them.
TEST_F(CliTrainingArgs, DefaultsInAFileAreNotGiven) {
  ASSERT_EQ(run(train_words()).exit_code, 0);
  EXPECT_EQ(read_json(arguments_file())["max_seq_length"], 128) << "more than the model has positions";
  const ParsedArguments parsed = parse_arguments(Command::kTrain, {"--config", arguments_file()});
  EXPECT_FALSE(parsed.sets("max_seq_length"));
  EXPECT_TRUE(parsed.sets("max_steps"));
}

}  // namespace
}  // namespace shoehorn
