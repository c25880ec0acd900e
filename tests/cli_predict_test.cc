// The command predict: where predictions go and come from, what is said beside them, and that memory does not grow with
// the rows. What predictions are: predict/*_test.cc.
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli_support.h"
#include "data/table.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

class CliPredict : public CliTest {
 protected:
  CliPredict() {
    // Labels that the model has.
    std::string texts = "key,text,label\n";
    std::istringstream rows(labelled_csv(24, 2));
    std::string row;
    std::getline(rows, row);
    for (int64_t i = 0; std::getline(rows, row); ++i) {
      const size_t comma = row.find(',');
      texts += fmt::format("{:03},{},{}\n", i, row.substr(0, comma),
                           row.substr(comma + 1) == "up" ? "LABEL_1" : "LABEL_0");
    }
    directory_.write("texts.csv", texts);
  }

  std::vector<std::string> words(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"predict", "--model_name_or_path", model(), "--test_file",
                                      path("texts.csv")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  ProgramRun succeed(const std::vector<std::string>& words) const {
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result;
  }

  // The program behind a shell's `before` ("cat FILE |"), with `after` behind its words.
  ProgramRun run_in_shell(const std::string& before, const std::vector<std::string>& words,
                          const std::string& after = "") const {
    std::string line = before + " " + SHOEHORN_PROGRAM;
    for (const std::string& word : words) line += " '" + word + "'";
    return StartedProgram({"-c", line + " " + after}, directory_.path(), {}, "/bin/sh").wait();
  }

  std::string file(const std::string& name) const { return read_text_file(path(name)); }
};

TEST_F(CliPredict, FormatsByTheName) {
  succeed(words({"--output_file", path("p.jsonl")}));
  succeed(words({"--output_file", path("p.csv")}));
  succeed(words({"--output_file", path("p.tsv"), "--id_column", "key", "--write_texts", "--top_k", "1"}));
  const Table csv = read_table(path("p.csv"));
  EXPECT_EQ(csv.column_names, (std::vector<std::string>{"index", "label", "score_LABEL_0", "score_LABEL_1"}));
  const Table tsv = read_table(path("p.tsv"));
  EXPECT_EQ(tsv.column_names, (std::vector<std::string>{"key", "text", "label", "class_1", "score_1"}));
  const Table texts = read_table(path("texts.csv"));
  std::istringstream lines(file("p.jsonl"));
  std::string line;
  for (int64_t row = 0; std::getline(lines, line); ++row) {
    const json prediction = parse_json(line, "line");
    EXPECT_EQ(prediction["index"], row);
    EXPECT_EQ(prediction["label"], csv.columns[1].text(row));
    EXPECT_EQ(format_python_float(prediction["scores"]["LABEL_0"].get<double>()), csv.columns[2].text(row));
    EXPECT_EQ(tsv.columns[0].text(row), texts.columns[0].text(row)) << "the zeros of 003 too";
    EXPECT_EQ(tsv.columns[1].text(row), texts.columns[1].text(row));
    EXPECT_EQ(tsv.columns[2].text(row), prediction["label"].get<std::string>());
    EXPECT_EQ(tsv.columns[3].text(row), prediction["label"].get<std::string>());
  }
  EXPECT_EQ(csv.rows(), 24);
  expect_failure(words({"--output_file", path("p.xlsx")}), 2, {"[--output_file]", "p.xlsx", ".csv"});
  expect_failure(words({"--output_file", path("p.csv"), "--id_column", "label", "--write_texts",
                        "--text_column_names", "text"}),
                 2, {"[--output_file]", "'label' twice"});
}

TEST_F(CliPredict, TextsAreAsLongAsInTraining) {
  ASSERT_EQ(run(train_words({"--max_seq_length", "6", "--max_steps", "1"})).exit_code, 0);
  const std::vector<std::string> trained = {"predict", "--model_name_or_path", output(), "--test_file",
                                            path("train.csv")};
  const auto predicted = [&](const char* name, const std::vector<std::string>& more) {
    std::vector<std::string> all = trained;
    all.insert(all.end(), {"--output_file", path(name)});
    all.insert(all.end(), more.begin(), more.end());
    return succeed(all).output;
  };
  const std::string said = predicted("as_trained.jsonl", {});
  EXPECT_TRUE(contains(said, "max_seq_length: 6 tokens, as the model was trained (")) << said;
  EXPECT_TRUE(contains(said, "reach max_seq_length (6 tokens): longer texts are cut")) << said;
  EXPECT_TRUE(contains(said, "text: text; label: label\n")) << said;
  const std::string given = predicted("given.jsonl", {"--max_seq_length", "6"});
  EXPECT_FALSE(contains(given, "as the model was trained")) << given;
  EXPECT_EQ(file("as_trained.jsonl"), file("given.jsonl"));
  predicted("longer.jsonl", {"--max_seq_length", "64"});
  EXPECT_NE(file("as_trained.jsonl"), file("longer.jsonl"));
  const ProgramRun evaluated = succeed({"eval", "--model_name_or_path", output(), "--validation_file",
                                        path("train.csv"), "--output_dir", path("eval")});
  EXPECT_TRUE(contains(evaluated.output, "max_seq_length: 6 tokens, as the model was trained ("))
      << evaluated.output;
}

TEST_F(CliPredict, ColumnsAreThoseOfTheTraining) {
  std::string rows = "said,mood,noise\n";
  for (int i = 0; i < 16; ++i) rows += i % 2 == 0 ? "good day,up,x y\n" : "bad day,down,x y\n";
  std::ofstream(path("mood.csv")) << rows;
  ASSERT_EQ(run(train_words({"--train_file", path("mood.csv"), "--text_column_names", "said",
                             "--label_column_name", "mood", "--max_steps", "1"}))
                .exit_code,
            0);
  const ProgramRun evaluated = succeed({"eval", "--model_name_or_path", output(), "--validation_file",
                                        path("mood.csv"), "--output_dir", path("eval")});
  EXPECT_TRUE(contains(evaluated.output, "text: said; label: mood; classes: down 8, up 8\n"))
      << evaluated.output;
  const auto predicted = [&](const char* name) {
    return succeed({"predict", "--model_name_or_path", output(), "--test_file", path(name), "--output_file",
                    path("p.jsonl")})
        .output;
  };
  EXPECT_TRUE(contains(predicted("mood.csv"), "text: said; label: mood\n"));
  std::ofstream(path("other.csv")) << "words\ngood day\n";
  EXPECT_TRUE(contains(predicted("other.csv"), "text: words\n")) << "a file that has other columns";
  std::ofstream(path("two.csv")) << "words,noise\ngood day,x y\n";
  expect_failure({"predict", "--model_name_or_path", output(), "--test_file", path("two.csv"),
                  "--output_file", path("p.jsonl")},
                 2, {"expected the column 'said', as in the training, got columns: words, noise"});
}

// Also where nobody named them.
TEST_F(CliPredict, ColumnsThatTheTrainingFoundAreReadAgain) {
  ASSERT_EQ(run(train_words({"--max_steps", "1"})).exit_code, 0);
  std::string rows = "text,label,noise\n";
  std::istringstream trained(file("train.csv"));
  std::string row;
  std::getline(trained, row);
  while (std::getline(trained, row)) rows += row + ",x y\n";
  std::ofstream(path("more.csv")) << rows;
  const std::vector<std::string> words = {"eval",         "--model_name_or_path", output(),
                                          "--output_dir", path("eval"),           "--validation_file"};
  const auto loss_of = [&](const char* name) {
    std::vector<std::string> all = words;
    all.push_back(path(name));
    const ProgramRun result = succeed(all);
    EXPECT_TRUE(contains(result.output, "text: text; label: label")) << result.output;
    return read_json(path("eval") / "eval_results.json").at("eval_loss").get<double>();
  };
  EXPECT_EQ(loss_of("more.csv"), loss_of("train.csv"));
}

TEST_F(CliPredict, PlainTextIsATextALine) {
  std::ofstream(path("new.txt")) << "good day, all\nbad day\n";
  succeed({"predict", "--model_name_or_path", model(), "--test_file", path("new.txt"), "--output_file",
           path("p.csv"), "--write_texts"});
  const std::string written = file("p.csv");
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 1 + 2);
  EXPECT_TRUE(contains(written, "\"good day, all\"")) << written;
  expect_failure({"predict", "--model_name_or_path", model(), "--test_file", path("new.txt"), "--output_file",
                  path("p.csv") / "q.csv"},
                 2, {"p.csv] expected a directory, got a file of that name"});
  expect_failure({"predict", "--model_name_or_path", model(), "--validation_file", path("new.txt")}, 2,
                 {"predict reads --test_file"});
}

TEST_F(CliPredict, TextsAreNotLostAndFoldersAreMade) {
  const std::string before = file("texts.csv");
  expect_failure(words({"--output_file", path("texts.csv")}), 2,
                 {"[--output_file] expected another file than --test_file"});
  EXPECT_EQ(file("texts.csv"), before);
  succeed(words({"--output_file", path("nowhere") / "below" / "p.csv"}));
  EXPECT_FALSE(file("nowhere/below/p.csv").empty());
}

TEST_F(CliPredict, StandardOutputHasPredictionsAlone) {
  succeed(words({"--output_file", path("p.csv"), "--logits"}));
  const ProgramRun result = succeed(words({"--output_file", "-", "--output_file_format", "csv", "--logits"}));
  EXPECT_EQ(result.output, file("p.csv"));
  EXPECT_TRUE(contains(result.error, "24 predictions in standard output"));
  EXPECT_TRUE(contains(result.error, "predict_accuracy"));
  expect_failure(words({"--output_file", "-", "--json"}), 2, {"[--json]", "--output_file -"});
  // A reader that has enough ends the program, with no complaint.
  const ProgramRun piped = run_in_shell("", words({"--output_file", "-"}), "| head -n 1");
  EXPECT_EQ(piped.exit_code, 0);
  EXPECT_TRUE(piped.output.starts_with("{\"index\": 0,")) << piped.output;
}

TEST_F(CliPredict, StandardInputIsAFile) {
  succeed(words({"--output_file", path("p.jsonl")}));
  const ProgramRun guessed = run_in_shell("cat '" + path("texts.csv").string() + "' |",
                                          words({"--test_file", "-", "--output_file", "-"}));
  EXPECT_EQ(guessed.exit_code, 0) << guessed.error;
  EXPECT_EQ(guessed.output, file("p.jsonl"));
  directory_.write("tabs", "text\tother\nglea stat\t1\nhust\t2\n");
  const ProgramRun tabs = run_in_shell("cat '" + path("tabs").string() + "' |",
                                       words({"--test_file", "-", "--output_file", "-"}));
  EXPECT_EQ(tabs.exit_code, 0) << tabs.error;
  EXPECT_TRUE(contains(tabs.output, "{\"index\": 1, ")) << tabs.output;
  directory_.write("lines", R"({"text": "glea stat", "id": 7}
{"text": "hust", "id": "x"}
)");
  const ProgramRun objects = run_in_shell(
      "",
      words({"--test_file", "-", "--test_file_format", "jsonl", "--output_file", "-", "--id_column", "id"}),
      "< '" + path("lines").string() + "'");
  EXPECT_EQ(objects.exit_code, 0) << objects.error;
  EXPECT_TRUE(objects.output.starts_with("{\"id\": 7, \"label\"")) << objects.output;
  EXPECT_TRUE(contains(objects.output, "\n{\"id\": \"x\", \"label\"")) << objects.output;
  const ProgramRun nothing =
      run_in_shell("", words({"--test_file", "-", "--output_file", path("none.csv")}), "< /dev/null");
  EXPECT_EQ(nothing.exit_code, 2) << nothing.error;
  EXPECT_FALSE(fs::exists(path("none.csv")));
}

TEST_F(CliPredict, MetricsAreThoseOfEval) {
  const ProgramRun result = succeed(words({"--output_dir", output()}));
  EXPECT_TRUE(contains(result.output, "***** predict metrics *****"));
  EXPECT_FALSE(contains(result.output, "memory"));
  succeed({"eval", "--model_name_or_path", model(), "--validation_file", path("texts.csv"), "--output_dir",
           path("evaluated"), "--text_column_names", "text"});
  const json predicted = read_json(output() / "predict_results.json");
  const json evaluated = read_json(path("evaluated") / "eval_results.json");
  for (const auto& [name, value] : evaluated.items()) {
    if (name.ends_with("_runtime") || name.ends_with("_per_second")) continue;
    EXPECT_EQ(predicted.value("predict_" + name.substr(5), json()), value) << name;
  }
  EXPECT_FALSE(fs::exists(output() / "all_results.json")) << "it is a training run's";
  EXPECT_EQ(written(), (std::vector<std::string>{"predict_results.json", "predictions.jsonl"}));
  // Without labels there are none.
  directory_.write("plain.csv", "text\nglea stat\nhust\n");
  const ProgramRun plain =
      succeed(words({"--test_file", path("plain.csv"), "--output_dir", output(), "--json"}));
  EXPECT_FALSE(parse_json(plain.output, "output").contains("predict_loss"));
  EXPECT_EQ(parse_json(plain.output, "output")["predict_samples"], 2);
  // A label that the model has not is an error if the user named the column.
  directory_.write("odd.csv", "text,label\nglea stat,LABEL_0\nhust,strange\n");
  const ProgramRun odd = succeed(words({"--test_file", path("odd.csv"), "--output_file", path("odd.jsonl")}));
  EXPECT_TRUE(contains(odd.output, "no metrics")) << odd.output;
  EXPECT_TRUE(contains(odd.output, "odd.csv:3"));
  EXPECT_TRUE(contains(odd.output, "2 predictions in"));
  fs::remove(path("odd.jsonl"));
  expect_failure(words({"--test_file", path("odd.csv"), "--output_file", path("odd.jsonl"),
                        "--label_column_name", "label"}),
                 2, {"odd.csv:3", "strange"});
  EXPECT_FALSE(fs::exists(path("odd.jsonl"))) << "whole or not at all";
}

// A file of 100 MB takes what one of 6 MB takes, and what the plan says.
TEST_F(CliPredict, MemoryDoesNotGrowWithTheRows) {
  const auto predict_long = [&](int64_t rows) {
    std::string text = "text\n";
    const std::string row = [] {
      std::string words;
      for (int64_t i = 0; i < 2000; ++i) words += "stat glea ";
      return words + "\n";
    }();
    for (int64_t i = 0; i < rows; ++i) text += row;
    directory_.write("long.csv", text);
    text = {};
    return succeed(words({"--test_file", path("long.csv"), "--output_file", path("p.jsonl"), "--json"}));
  };
  const ProgramRun few = predict_long(300);
  const ProgramRun many = predict_long(5000);
  const json metrics = parse_json(many.output, "output");
  EXPECT_EQ(metrics["predict_samples"], 5000);
  if (!measures_memory()) return;
  EXPECT_LT(many.peak_bytes, few.peak_bytes + 12 * kMebibyte);
  EXPECT_EQ(metrics["predict_memory_arena_predicted_bytes"], metrics["predict_memory_arena_measured_bytes"]);
  const auto predicted = metrics["predict_memory_process_predicted_bytes"].get<double>();
  const auto measured = metrics["predict_memory_process_measured_bytes"].get<double>();
  EXPECT_LT(measured, predicted * 1.02);
  EXPECT_NEAR(measured, predicted, std::max(0.02 * predicted, 8.0 * kMebibyte));
}

}  // namespace
}  // namespace shoehorn
