// What can be known before the first step is an error before the first step, and leaves nothing behind.
#include "cli_support.h"
#include "io/checkpoint_directory.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliStartChecks : public CliTest {
 protected:
  // Fails unless the program refuses before it takes a step or saves anything.
  void expect_refused(const std::vector<std::string>& more, int exit_code,
                      const std::vector<std::string>& parts) const {
    const ProgramRun result = expect_failure(train_words(more), exit_code, parts);
    EXPECT_EQ(result.output.find("\nstep "), std::string::npos) << result.output;
    EXPECT_TRUE(list_checkpoints(output()).empty());
    EXPECT_FALSE(fs::exists(output() / "model.safetensors"));
  }

  std::vector<std::string> evaluating(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"--validation_file", path("validation.csv"),
                                    "--eval_strategy",   "steps",
                                    "--eval_steps",      "2",
                                    "--save_steps",      "2",
                                    "--logging_steps",   "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(CliStartChecks, AnUnknownMetric) {
  expect_refused(
      evaluating({"--metric_for_best_model", "kappa"}), 2,
      {"[metric_for_best_model] expected one of eval_accuracy, eval_f1, eval_f1_macro", "got 'eval_kappa'"});
  expect_refused(evaluating({"--early_stopping_patience", "2", "--metric_for_best_model", "acuracy"}), 2,
                 {"did you mean eval_accuracy?"});
}

TEST_F(CliStartChecks, EarlyStoppingWithoutEvaluations) {
  expect_refused({"--early_stopping_patience", "2"}, 2,
                 {"[early_stopping_patience] expected eval_strategy steps or epoch, got 'no'"});
  expect_refused(evaluating({"--early_stopping_patience", "0"}), 2,
                 {"[early_stopping_patience] expected 1 or more"});
  expect_refused(evaluating({"--early_stopping_threshold", "0.1"}), 2,
                 {"[early_stopping_threshold] expected early_stopping_patience with it"});
  expect_refused(evaluating({"--early_stopping_patience", "1", "--early_stopping_threshold", "-1"}), 2,
                 {"[early_stopping_threshold] expected 0 or more"});
}

// Checkpoints without an evaluation cannot be the best.
TEST_F(CliStartChecks, IntervalsThatDoNotMeet) {
  expect_refused(
      evaluating({"--load_best_model_at_end", "--save_steps", "3"}), 2,
      {"[load_best_model_at_end] expected save_steps to be a multiple of eval_steps, got 3 and 2"});
  expect_refused(evaluating({"--load_best_model_at_end", "--save_strategy", "epoch"}), 2,
                 {"[load_best_model_at_end] expected equal save_strategy and eval_strategy"});
}

// Found while the training file is not tokenized yet.
TEST_F(CliStartChecks, AValidationFileThatIsNotThere) {
  directory_.write("train.csv", "text,label\n");  // it would be the error, were it read first
  expect_refused({"--validation_file", path("absent.csv"), "--eval_strategy", "epoch"}, 2, {"absent.csv"});
}

TEST_F(CliStartChecks, AMistakeLeavesNoNewDirectory) {
  directory_.write("train.txt", "plain text\nof no labels\n");
  expect_refused(
      {"--train_file", path("train.txt")}, 2,
      {"expected a column of labels", "to train a language model on plain text, give --task causal-lm"});
  EXPECT_FALSE(fs::exists(output()));
  fs::create_directories(output());
  expect_refused({"--train_file", path("train.txt")}, 2, {"expected a column of labels"});
  EXPECT_TRUE(fs::exists(output())) << "it was there before";
}

TEST_F(CliStartChecks, ResultsThatCannotBeWritten) {
  for (const char* name : {"train_results.json", "eval_results.json", "trainer_state.json", "config.json"}) {
    fs::create_directories(output() / name);
    expect_refused(evaluating(), 2, {name});
    fs::remove_all(output());
  }
  directory_.write("out/all_results.json", "[]");
  expect_refused(evaluating(), 2,
                 {"all_results.json] expected a JSON object, got array; move the file away"});
  directory_.write("out/all_results.json", "{");
  expect_refused(evaluating(), 2, {"all_results.json"});
  // `eval` finds it before the evaluation too.
  expect_failure({"eval", "--model_name_or_path", model(), "--validation_file", path("absent.csv"),
                  "--output_dir", output()},
                 2, {"all_results.json"});
}

TEST_F(CliStartChecks, ReportsThatCannotBeWritten) {
  directory_.write("file", "");
  expect_refused({"--report_to", "tensorboard", "--logging_dir", path("file") / "runs"}, 2,
                 {path("file").string()});
  fs::create_directories(output() / "report.html");
  expect_refused({"--report_to", "html"}, 2, {"report.html"});
  expect_refused({"--report_to", "wandb"}, 2, {"wandb"});
}

TEST_F(CliStartChecks, EarlyStoppingEndsTheRun) {
  const ProgramRun result = run(train_words(
      evaluating({"--max_steps", "20", "--early_stopping_patience", "2", "--early_stopping_threshold", "1000",
                  "--load_best_model_at_end", "--report_to", "html"})));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.output, "early stopping at step 6: eval_loss did not improve"));
  EXPECT_FALSE(fs::exists(output() / "checkpoint-8"));
  EXPECT_TRUE(contains(result.output, "loaded the best model"));
  const std::string page = read_text_file(output() / "report.html");
  EXPECT_TRUE(contains(page, "Ended: step 6 of 20; early stopping at step 6: eval_loss did not improve"));
  EXPECT_TRUE(contains(page, ">saved model<")) << "its evaluation is none of step 6";
}

}  // namespace
}  // namespace shoehorn
