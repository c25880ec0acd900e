// Files of strangers: what is no regular file, what hides something behind its end, and labels and
// configurations that mean something else than classes. One message that names the file, at once, and nothing
// written.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

class HostileFiles : public CliTest {
 protected:
  std::vector<std::string> eval_words(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {
        "eval", "--model", model(), "--validation_file", path("labels.csv"), "--output_dir", output()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void set_config(const json& changes) const {
    json config = read_json(model() / "config.json");
    for (const auto& [key, value] : changes.items()) config[key] = value;
    write_json_atomic(model() / "config.json", config);
  }
  double accuracy_of(const std::string& labels, std::vector<std::string> more = {}) const {
    directory_.write("labels.csv", labels);
    more.push_back("--json");
    const ProgramRun result = run(eval_words(more));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return parse_json(result.output, "output")["eval_accuracy"].get<double>();
  }
};

// Reading a pipe without a writer would never end, and a device may have no end.
TEST_F(HostileFiles, WhatIsNoRegularFileIsRefusedAtOnce) {
  const std::string data = path("train.csv");
  const auto try_in_place_of = [&](const fs::path& file, const std::vector<std::string>& words) {
    const fs::path saved = path("saved");
    fs::rename(file, saved);
    const std::string name = file.filename();
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    expect_failure(words, 2, {name, "a pipe or device"});
    fs::remove(file);
    fs::create_directory(file);
    expect_failure(words, 2, {name, "directory"});
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    expect_failure(words, 2, {name, "a pipe or device"});
    fs::remove(file);
    directory_.write(fs::relative(file, directory_.path()), "");
    expect_failure(words, 2, {name});
    fs::remove(file);
    fs::rename(saved, file);
  };
  try_in_place_of(data, train_words());
  try_in_place_of(path("validation.csv"), train_words({"--validation_file", path("validation.csv")}));
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"})
    try_in_place_of(model() / file, train_words());
  directory_.write("run.json", "{}");
  try_in_place_of(path("run.json"), train_words({"--config", path("run.json")}));
  EXPECT_TRUE(written().empty());
}

TEST_F(HostileFiles, NamesThatNoFileCanHave) {
  for (const std::string& name :
       {std::string(300, 'x'), std::string(5000, 'x'), std::string("train.csv/below")}) {
    for (const char* flag : {"--train_file", "--model_name_or_path", "--config"}) {
      const ProgramRun result = run(train_words({flag, path(name)}));
      EXPECT_GE(result.exit_code, 1) << flag;
      EXPECT_EQ(result.error.rfind("error: [", 0), 0U) << result.error;
      EXPECT_EQ(result.error.find("filesystem error"), std::string::npos) << result.error;
    }
  }
  expect_failure(train_words({"--output_dir", path("\xff")}), 2, {"[command line] expected UTF-8"});
  EXPECT_TRUE(written().empty());
}

TEST_F(HostileFiles, NothingHidesBehindTheEndOfJson) {
  const std::string garbage("\0garbage", 8);
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    const std::string whole = read_text_file(model() / file);
    directory_.write(fs::path("model") / file, whole + garbage);
    expect_failure(train_words(), 2, {file, "a NUL byte"});
    directory_.write(fs::path("model") / file, whole);
  }
  directory_.write("run.json", "{}" + garbage);
  expect_failure(train_words({"--config", path("run.json")}), 2, {"run.json:1:3", "a NUL byte"});
  directory_.write("train.jsonl", R"({"text": "a", "label": "b"})" + garbage);
  expect_failure(train_words({"--train_file", path("train.jsonl")}), 2, {"train.jsonl:1", "NUL"});
}

TEST_F(HostileFiles, UnknownProblemsAreRefused) {
  const std::vector<std::vector<std::string>> commands = {
      train_words(),
      {"plan", "--model", model()},
      {"predict", "--model", model(), "--test_file", path("train.csv")}};
  const json saved = read_json(model() / "config.json");
  const std::vector<std::pair<json, std::string>> refused = {
      {{{"num_labels", 0}}, "'num_labels'"},
      {{{"problem_type", "ranking"}}, "'problem_type'"},
      {{{"problem_type", "single_label_classification"}, {"id2label", {{"0", "score"}}}}, "from 2 to"}};
  for (const auto& [changes, message] : refused) {
    set_config(changes);
    for (const std::vector<std::string>& words : commands) expect_failure(words, 2, {"config.json", message});
    write_json_atomic(model() / "config.json", saved);
  }
  EXPECT_TRUE(written().empty());
}

// A training file of run_glue with labels 0 and 1 gives these.
TEST_F(HostileFiles, NamesOfClassesThatAreNumbers) {
  const std::string labels = "text,label\nstat glea,1\nchai,0\nhust,0\n";
  const double expected = accuracy_of(labels);
  set_config({{"id2label", {{"0", 0}, {"1", 1}}}, {"label2id", {{"0", 0}, {"1", 1}}}});
  EXPECT_EQ(accuracy_of(labels), expected);
  const ProgramRun predicted =
      run({"predict", "--model", model(), "--test_file", path("labels.csv"), "--output_dir", output()});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.error;
  const std::string lines = read_text_file(output() / "predictions.jsonl");
  EXPECT_TRUE(contains(lines, R"("label": "0")") || contains(lines, R"("label": "1")")) << lines;
}

TEST_F(HostileFiles, NumbersAsLabelsAreIdsOfTheModelsClasses) {
  set_config(
      {{"id2label", {{"0", "LABEL_0"}, {"1", "LABEL_1"}}}, {"label2id", {{"LABEL_0", 0}, {"LABEL_1", 1}}}});
  const double expected = accuracy_of("text,label\nstat glea,LABEL_1\nchai,LABEL_0\nhust,LABEL_0\n");
  EXPECT_EQ(accuracy_of("text,label\nstat glea,1\nchai,0\nhust,0\n"), expected);
  EXPECT_TRUE(contains(run(eval_words()).output, "labels are numbers of the model's classes: 0 is LABEL_0"));
  directory_.write("labels.csv", "text,label\nstat,2\n");
  expect_failure(eval_words(), 2, {"labels.csv:2", "2 classes"});
}

TEST_F(HostileFiles, LabelsThatAreNoClasses) {
  const auto refuse = [&](const std::string& content, const std::vector<std::string>& parts) {
    directory_.write("train.csv", content);
    expect_failure(train_words(), 2, parts);
  };
  refuse("text,label\na,1\nb,-1\nc,0\n", {"train.csv:3", "'-1'", "GLUE"});
  directory_.write("train.csv", "text,label\na,1.0\nb,0.0\n");
  expect_failure(train_words({"--problem_type", "single_label_classification"}), 2,
                 {"train.csv", "words or of whole numbers", "got fractions"});
  refuse("text,label\na,1\nb,\nc,0\n", {"train.csv:3", "got none"});
  refuse("text,label\na,1\nb,nan\nc,0\n", {"train.csv:3", "'nan'"});
  std::string texts = "label,text\n";
  for (int64_t i = 0; i < 100'000; ++i) texts += fmt::format("a text that is like no other {},glea\n", i);
  refuse(texts, {"train.csv", "column 'label'", "100000 different labels", "label_column_name"});
  EXPECT_TRUE(written().empty());
}

// The log, the reports and the model's config are JSON, which is UTF-8.
TEST_F(HostileFiles, BytesThatAreNotUtf8InLabelsAndNames) {
  directory_.write("train.csv",
                   "te\xfext,label\nstat glea,caf\xe9\nhust,th\xe9\nglea,caf\xe9\nchai,th\xe9\n");
  const ProgramRun result = run(train_words({"--report_to", "all", "--per_device_train_batch_size", "2"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.output, "5 ill-formed stretches of UTF-8 are read as U+FFFD"));
  const json config = read_json(output() / "config.json");
  EXPECT_EQ(config["id2label"]["0"], "caf\xef\xbf\xbd");
  EXPECT_EQ(run({"predict", "--model", output(), "--test_file", path("train.csv"), "--output_dir", output()})
                .exit_code,
            0);
}

TEST_F(HostileFiles, PatternsHaveLimits) {
  expect_failure(train_words({"--freeze", "(.*)*(.*)*[XY]$"}), 2, {"--freeze", "100000 steps"});
  expect_failure(train_words({"--freeze", std::string(100'000, '(')}), 2, {"--freeze", "longer than"});
  expect_failure(train_words({"--freeze", "layer("}), 2, {"--freeze", "regular expression"});
  expect_failure({"fit", "--model_name_or_path", model(), "--freeze", "layer("}, 2,
                 {"error: [--freeze layer(] expected a regular expression"});
}

// As run_glue does it, and says it. The model has 64 positions.
TEST_F(HostileFiles, LongerTextsThanTheModelTakesAreCutAndSaid) {
  const std::vector<std::string> length = {"--max_seq_length", "100000", "--pad_to_max_length"};
  const std::string notice = "max_seq_length: 64 tokens in place of 100000: the model has no more positions";
  const ProgramRun trained = run(train_words(length));
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, notice));
  EXPECT_TRUE(contains(run({"plan", "--model", model(), "--max_seq_length", "100000"}).output, notice));
  EXPECT_FALSE(contains(run(train_words({"--max_seq_length", "64", "--overwrite_output_dir"})).output,
                        notice.substr(0, 15)));
  json tokenizer = read_json(model() / "tokenizer_config.json");
  tokenizer["model_max_length"] = 32;
  write_json_atomic(model() / "tokenizer_config.json", tokenizer);
  EXPECT_TRUE(contains(run(train_words({"--max_seq_length", "128", "--overwrite_output_dir"})).output,
                       "max_seq_length: 32 tokens in place of 128: the tokenizer's model_max_length"));
}

// The default, 128, is nothing that the user has said, in a configuration file either: those that runs write have every
// argument.
TEST_F(HostileFiles, ADefaultLengthBeyondTheModelIsCutInSilence) {
  directory_.write("flags.json", R"({"max_seq_length": 96})");
  const std::string notice = "max_seq_length: 64 tokens in place of ";
  const std::vector<std::vector<std::string>> commands = {
      train_words({"--overwrite_output_dir"}),
      {"plan", "--model", model()},
      {"plan", "--model", model(), "--train_file", path("train.csv")},
      {"eval", "--model", output(), "--validation_file", path("validation.csv"), "--output_dir",
       path("eval")},
      {"predict", "--model", output(), "--test_file", path("validation.csv"), "--output_dir", path("eval")}};
  for (std::vector<std::string> words : commands) {
    const ProgramRun silent = run(words);
    EXPECT_EQ(silent.exit_code, 0) << silent.error;
    EXPECT_EQ(silent.output.find("max_seq_length"), std::string::npos) << silent.output;
    words.insert(words.end(), {"--config", path("flags.json")});
    EXPECT_TRUE(contains(run(words).output, notice)) << words[0];
    words.back() = "--max_seq_length=128";
    words.erase(words.end() - 2);
    EXPECT_TRUE(contains(run(words).output, notice)) << words[0];
  }
}

// Random samples are as long as the default or the model; a length that is given is meant.
TEST_F(HostileFiles, ADefaultLengthBeyondTheModelIsNoMistakeWhereStepsAreMeasured) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"anatomy", "--no_measure", "--no_limits"},
        {"bench", "step", "--max_steps", "2", "--no_limits"},
        {"bench", "batch", "--max", "1", "--steps", "2"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--model", model()});
    const ProgramRun of_default = run(words);
    EXPECT_EQ(of_default.exit_code, 0) << of_default.error;
    words.insert(words.end(), {"--sequence_length", "128"});
    const ProgramRun of_given = run(words);
    EXPECT_NE(of_given.exit_code, 0) << command[0];
    EXPECT_TRUE(contains(of_given.error + of_given.output, "expected at most 64, the model's positions"));
  }
}

// What drives a terminal is not handed to it, and a message has an end.
TEST_F(HostileFiles, MessagesAreText) {
  directory_.write("train.csv", "text,label\nstat,up\ncest,down\n");
  directory_.write("validation.csv", "text,label\nhust,\x1b[2J" + std::string(1 << 20, 'x') + "\n");
  const ProgramRun result = expect_failure(train_words({"--validation_file", path("validation.csv")}), 2,
                                           {"validation.csv:2", "\\x1b[2J"});
  EXPECT_LT(result.error.size(), 10'000U);
  EXPECT_EQ(result.error.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
