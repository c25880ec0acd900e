// Other problems than one class a text, from their files to metrics and predictions.
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "cli_support.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace shoehorn::test_support {
namespace {

using nlohmann::json;

// The model comes without a head, as one that was only pretrained.
class CliProblems : public CliTest {
 protected:
  CliProblems() {
    const std::filesystem::path file = model() / "model.safetensors";
    std::vector<TensorSpec> specs;
    std::vector<std::vector<std::byte>> contents;
    {
      const SafetensorsFile whole = SafetensorsFile::open(file);
      for (const TensorEntry& entry : whole.tensors()) {
        if (entry.name.starts_with("classifier.")) continue;
        specs.push_back({entry.name, entry.dtype, entry.shape});
        contents.emplace_back(static_cast<size_t>(entry.bytes));
        whole.read_into(entry.name, contents.back());
      }
    }
    SafetensorsWriter writer(file, specs);
    for (size_t i = 0; i < specs.size(); ++i) writer.append(specs[i].name, contents[i]);
    writer.commit();
    forget_checksums();
  }

  // A labelled text: how often "glea" and "hust" are in it.
  struct Row {
    std::string text;
    int glea = 0;
    int hust = 0;
  };

  static std::vector<Row> rows(int64_t count, uint32_t seed) {
    static const std::vector<std::string> words = {"stat", "cest", "chai", "trou", "glea", "hust"};
    std::mt19937 random(seed);
    std::vector<Row> rows(static_cast<size_t>(count));
    for (Row& row : rows) {
      for (size_t t = 0, length = 3 + random() % 5; t < length; ++t) {
        const std::string& word = words[random() % words.size()];
        row.text += (t == 0 ? "" : " ") + word;
        row.glea += word == "glea" ? 1 : 0;
        row.hust += word == "hust" ? 1 : 0;
      }
    }
    return rows;
  }

  std::vector<std::string> learn_words(std::vector<std::string> more) const {
    std::vector<std::string> words = {"--learning_rate",
                                      "3e-3",
                                      "--max_steps",
                                      "120",
                                      "--lr_scheduler_type",
                                      "constant",
                                      "--logging_steps",
                                      "40",
                                      "--per_device_eval_batch_size",
                                      "7"};
    words.insert(words.end(), more.begin(), more.end());
    return train_words(words);
  }

  json results(const std::string& split) const { return read_json(output() / (split + "_results.json")); }

  std::vector<json> predictions(const std::string& file, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"predict",  "--model",      output(),         "--test_file",
                                      path(file), "--output_dir", path("predicted")};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun predicted = run(words);
    EXPECT_EQ(predicted.exit_code, 0) << predicted.error;
    std::istringstream lines(read_text_file(path("predicted") / "predictions.jsonl"));
    std::vector<json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(parse_json(line, "line"));
    return all;
  }
};

TEST_F(CliProblems, Regression) {
  const auto csv = [](const std::vector<Row>& data) {
    std::string text = "text,label\n";
    for (const Row& row : data) text += fmt::format("{},{:.1f}\n", row.text, 0.5 * row.glea);
    return text;
  };
  const std::vector<Row> held_out = rows(40, 2);
  directory_.write("train.csv", csv(rows(240, 1)));
  directory_.write("validation.csv", csv(held_out));
  const ProgramRun trained = run(learn_words({"--validation_file", path("validation.csv"), "--eval_strategy",
                                              "steps", "--eval_steps", "40", "--load_best_model_at_end",
                                              "--metric_for_best_model", "mse", "--save_steps", "40"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "1 value a text"));
  EXPECT_TRUE(
      contains(trained.output, "the model's single_label_classification becomes regression: the labels of"));
  EXPECT_TRUE(contains(trained.output, "eval_mse"));
  // The best by the error is the one with the smallest.
  const json state = read_json(output() / "trainer_state.json");
  double best = std::numeric_limits<double>::infinity();
  for (const json& entry : state["log_history"]) {
    if (entry.contains("eval_mse")) best = std::min(best, entry["eval_mse"].get<double>());
  }
  EXPECT_EQ(state["best_metric"], best);
  const json config = read_json(output() / "config.json");
  EXPECT_EQ(config["problem_type"], "regression");
  EXPECT_EQ(config["id2label"], json({{"0", "LABEL_0"}}));

  const json evaluated = results("eval");
  EXPECT_NEAR(evaluated["eval_loss"].get<double>(), evaluated["eval_mse"].get<double>(), 1e-6)
      << "one value a text";
  EXPECT_GT(evaluated["eval_pearson"].get<double>(), 0.8) << "it learned to count a word";
  // What is predicted is what was scored.
  const std::vector<json> predicted = predictions("validation.csv");
  ASSERT_EQ(predicted.size(), held_out.size());
  double mse = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const double error = predicted[i]["value"].get<double>() - 0.5 * held_out[i].glea;
    mse += error * error / static_cast<double>(predicted.size());
  }
  // Values and errors pass through fp32 once, in batches of other sizes.
  EXPECT_NEAR(mse, evaluated["eval_mse"].get<double>(), 1e-4 * std::max(1.0, mse));
}

TEST_F(CliProblems, LabelsInLists) {
  const auto lines = [](const std::vector<Row>& data) {
    std::string text;
    for (const Row& row : data) {
      json labels = json::array();
      if (row.hust > 0) labels.push_back("hust");
      if (row.glea > 0) labels.push_back("glea");
      text += json({{"text", row.text}, {"label", labels}}).dump() + "\n";
    }
    return text;
  };
  const std::vector<Row> held_out = rows(40, 2);
  directory_.write("train.jsonl", lines(rows(240, 1)));
  directory_.write("validation.jsonl", lines(held_out));
  const ProgramRun trained =
      run(learn_words({"--train_file", path("train.jsonl"), "--validation_file", path("validation.jsonl"),
                       "--max_steps", "400", "--learning_rate", "1e-3", "--gradient_accumulation_steps", "2",
                       "--per_device_train_batch_size", "4", "--save_strategy", "no"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "2 classes, any number a text"));
  EXPECT_EQ(read_json(output() / "config.json")["id2label"], json({{"0", "glea"}, {"1", "hust"}}));
  const json evaluated = results("eval");
  EXPECT_GT(evaluated["eval_f1"].get<double>(), 0.9) << "it learned to find two words";
  const std::vector<json> predicted = predictions("validation.jsonl");
  ASSERT_EQ(predicted.size(), held_out.size());
  int64_t exact = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    json expected = json::array();
    if (held_out[i].glea > 0) expected.push_back("glea");
    if (held_out[i].hust > 0) expected.push_back("hust");
    exact += predicted[i]["labels"] == expected ? 1 : 0;
  }
  EXPECT_EQ(static_cast<double>(exact) / 40, evaluated["eval_accuracy"].get<double>());
  // Ids in place of names, of a model whose names are none.
  directory_.write("ids.jsonl", R"({"text": "glea hust", "label": [1, 0]})"
                                "\n");
  const ProgramRun by_id = run({"eval", "--model", output(), "--validation_file", path("ids.jsonl"),
                                "--output_dir", path("evaluated")});
  ASSERT_EQ(by_id.exit_code, 0) << by_id.error;
  EXPECT_TRUE(contains(by_id.output, "labels are numbers of the model's classes: 0 is glea, 1 is hust"));
}

TEST_F(CliProblems, LabelsInColumns) {
  directory_.write("train.csv",
                   "text,glea,hust\nglea stat,1,0\nhust stat,0,1\nglea hust,1,1\nstat stat,0,0\n");
  const std::vector<std::string> columns = {"--label_column_name", "hust,glea", "--text_column_names",
                                            "text"};
  std::vector<std::string> words = train_words(columns);
  ASSERT_EQ(run(words).exit_code, 0);
  const json config = read_json(output() / "config.json");
  EXPECT_EQ(config["problem_type"], "multi_label_classification");
  EXPECT_EQ(config["id2label"], json({{"0", "hust"}, {"1", "glea"}}));
  // The same columns are numbers where somebody says so.
  words.insert(words.end(), {"--problem_type", "regression", "--overwrite_output_dir"});
  const ProgramRun numbers = run(words);
  ASSERT_EQ(numbers.exit_code, 0) << numbers.error;
  EXPECT_EQ(read_json(output() / "config.json")["problem_type"], "regression");
  const std::vector<json> predicted = predictions("train.csv", {"--text_column_names", "text"});
  ASSERT_EQ(predicted.size(), 4U);
  EXPECT_TRUE(predicted[0]["values"]["hust"].is_number());
}

TEST_F(CliProblems, WholeNumbersAsARegression) {
  directory_.write("train.csv", "text,label\nglea,3\nstat,1\nhust,2\nchai,1\n");
  const ProgramRun trained = run(train_words({"--problem_type", "regression"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  // A model of a regression goes on with whole numbers without being told.
  const ProgramRun again = run(train_words({"--model", output(), "--output_dir", path("again")}));
  ASSERT_EQ(again.exit_code, 0) << again.error;
  EXPECT_EQ(read_json(path("again") / "config.json")["problem_type"], "regression");
  // GLUE's STS-B as it is published.
  directory_.write("stsb.tsv",
                   "index\tsentence1\tsentence2\tscore\n0\tglea stat\thust\t2.500\n1\tstat\tchai\t0.0\n");
  const ProgramRun stsb = run(
      train_words({"--train_file", path("stsb.tsv"), "--task_name", "stsb", "--output_dir", path("stsb")}));
  EXPECT_EQ(stsb.exit_code, 0) << stsb.error;
  const std::vector<std::string> elsewhere = {"--output_dir", path("refused")};
  const auto refused_words = [&](std::vector<std::string> more) {
    more.insert(more.end(), elsewhere.begin(), elsewhere.end());
    return train_words(more);
  };
  expect_failure(refused_words({"--problem_type", "multi_label_classification"}), 2,
                 {"train.csv", "expected labels of multi_label_classification"});
  expect_failure(refused_words({"--problem_type", "ranking"}), 2, {"[--problem_type]", "ranking"});
  expect_failure(refused_words({"--problem_type", "regression", "--label_smoothing_factor", "0.1"}), 2,
                 {"[label_smoothing_factor] expected 0 with regression, got 0.1"});
  expect_failure(refused_words({"--problem_type", "regression", "--z_loss", "0.25"}), 2,
                 {"[z_loss] expected 0 with regression, got 0.25"});
  directory_.write("train.jsonl", "{\"text\": \"a\", \"label\": []}\n{\"text\": \"b\", \"label\": []}\n");
  expect_failure(refused_words({"--train_file", path("train.jsonl")}), 2,
                 {"train.jsonl", "expected a class in one"});
}

// Memory is planned for the wider rows too.
TEST_F(CliProblems, PlansOfOtherProblems) {
  json config = read_json(model() / "config.json");
  for (const char* problem : {"regression", "multi_label_classification"}) {
    config["problem_type"] = problem;
    config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
    config.erase("label2id");
    write_json_atomic(model() / "config.json", config);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"plan", "--model", model(), "--max_seq_length", "32"},
          {"bench", "step", "--model", model(), "--sequence_length", "32", "--max_steps", "2",
           "--per_device_train_batch_size", "2"}}) {
      const ProgramRun result = run(words);
      EXPECT_EQ(result.exit_code, 0) << problem << ": " << result.error;
    }
  }
}

}  // namespace
}  // namespace shoehorn::test_support
