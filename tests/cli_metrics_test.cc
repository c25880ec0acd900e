// What evaluations say of classes, and --class_weights.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliMetrics : public CliTest {
 protected:
  ProgramRun train(const std::vector<std::string>& more) const {
    std::vector<std::string> words = train_words({"--validation_file", path("validation.csv").string(),
                                                  "--report_to", "html", "--save_strategy", "no"});
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(CliMetrics, ClassesAreInTheTerminalTheResultsAndTheReport) {
  const ProgramRun trained =
      train({"--eval_strategy", "steps", "--eval_steps", "2", "--metric_for_best_model", "mcc"});
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "  class  precision  recall      f1  support\n")) << trained.output;
  EXPECT_TRUE(contains(trained.output, "***** confusion matrix: a row for each label")) << trained.output;
  EXPECT_EQ(trained.output.find('\033'), std::string::npos) << "no terminal";
  const json results = read_json(output() / "eval_results.json");
  for (const char* name : {"eval_matthews_correlation", "eval_precision", "eval_recall", "eval_f1_macro",
                           "eval_f1_micro", "eval_f1_weighted", "eval_recall_weighted"}) {
    EXPECT_TRUE(results.contains(name)) << name;
  }
  const json& matrix = results["eval_confusion_matrix"];
  EXPECT_EQ(matrix["labels"], json({"down", "up"}));
  int64_t samples = 0, right = 0;
  for (size_t label = 0; label < 2; ++label) {
    int64_t support = 0;
    for (size_t prediction = 0; prediction < 2; ++prediction)
      support += matrix["counts"][label][prediction].get<int64_t>();
    EXPECT_EQ(results["eval_classes"][label == 0 ? "down" : "up"]["support"], support);
    samples += support;
    right += matrix["counts"][label][label].get<int64_t>();
  }
  EXPECT_EQ(samples, 24);
  EXPECT_DOUBLE_EQ(results["eval_accuracy"].get<double>(), static_cast<double>(right) / 24);
  EXPECT_EQ(read_json(output() / "all_results.json")["eval_confusion_matrix"], matrix);
  const std::string page = read_text_file(output() / "report.html");
  for (const char* part :
       {"Confusion matrix", "Classes of the last evaluation", "label down, prediction up: "})
    EXPECT_TRUE(contains(page, part)) << part;
  const json state = read_json(output() / "trainer_state.json");
  for (const json& entry : state["log_history"])
    EXPECT_FALSE(entry.contains("eval_f1_macro")) << "not in each line of the log";

  const ProgramRun evaluated = run({"eval", "--model_name_or_path", output(), "--validation_file",
                                    path("validation.csv"), "--output_dir", path("evaluated"), "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.error;
  EXPECT_EQ(parse_json(evaluated.output, "output")["eval_confusion_matrix"], matrix);
}

TEST_F(CliMetrics, AMetricOfAClassIsTheBestModels) {
  const ProgramRun trained =
      train({"--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "steps", "--save_steps", "2",
             "--metric_for_best_model", "recall_up", "--load_best_model_at_end"});
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const json history = read_json(output() / "trainer_state.json")["log_history"];
  EXPECT_TRUE(std::any_of(history.begin(), history.end(),
                          [](const json& e) { return e.contains("eval_recall_up"); }));
}

TEST_F(CliMetrics, ClassWeightsAreShownAndDecideWhatARunIs) {
  const ProgramRun trained =
      train({"--class_weights", "balanced", "--save_strategy", "steps", "--save_steps", "2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const std::string csv = read_text_file(path("train.csv"));
  int64_t up = 0;
  for (size_t at = csv.find(",up"); at != std::string::npos; at = csv.find(",up", at + 1)) ++up;
  const std::string line =
      fmt::format("Class weights: down {:.6g}, up {:.6g}\n", 48.0F / static_cast<float>(2 * (48 - up)),
                  48.0F / static_cast<float>(2 * up));
  EXPECT_TRUE(contains(trained.output, line)) << line << trained.output;
  const ProgramRun resumed = train({"--class_weights", "up=3", "--save_strategy", "steps", "--save_steps",
                                    "2", "--resume_from_checkpoint", (output() / "checkpoint-2").string()});
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_TRUE(contains(resumed.error, "--class_weights")) << resumed.error;
  const auto evaluate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "eval",         "--model_name_or_path", output(), "--validation_file", path("validation.csv"),
        "--output_dir", path("evaluated"),      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const ProgramRun unweighted = evaluate({});
  EXPECT_TRUE(contains(unweighted.error, "training weighed the classes (class_weights [\"balanced\"])"))
      << unweighted.error;
  const json plain = parse_json(unweighted.output, "output");
  const json weighted = parse_json(evaluate({"--class_weights", "down=0,up=1"}).output, "output");
  EXPECT_NE(plain["eval_loss"], weighted["eval_loss"]);
  EXPECT_FALSE(contains(evaluate({"--class_weights", "down=0,up=1"}).error, "training weighed"));
  EXPECT_EQ(plain["eval_f1"], weighted["eval_f1"]) << "only the loss has weights";
  const ProgramRun refused = evaluate({"--class_weights", "balanced"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.error, "no training data can be counted, got balanced")) << refused.error;
}

}  // namespace
}  // namespace shoehorn
