// Flags of the commands do what their help says: where results go and in which form, what is evaluated, what
// is planned, and what is left of an earlier run.
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/safetensors.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

class CliFlags : public CliTest {
 protected:
  CliFlags() {
    directory_.write("labelled.csv", "text,label\nstat glea hust,LABEL_1\nchai trou,LABEL_0\nprea,LABEL_0\n");
  }

  std::vector<std::string> eval_words(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {
        "eval",  "--model_name_or_path", model(), "--validation_file", path("labelled.csv"), "--output_dir",
        output()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> predict_words(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"predict",     "--model_name_or_path", model(),
                                      "--test_file", path("validation.csv"), "--output_dir",
                                      output()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ProgramRun succeed(const std::vector<std::string>& words) const {
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }
  // The model's weights with one more tensor.
  void write_safetensors_with(const std::string& name) const {
    const fs::path file = model() / "model.safetensors";
    const std::string before = read_text_file(file);
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, before.data(), sizeof(header_bytes));
    json header = parse_json(before.substr(8, header_bytes), "header");
    const std::string data = before.substr(8 + header_bytes);
    header[name] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {data.size(), data.size() + 4}}};
    const std::string text = header.dump();
    std::string all(8, 0);
    header_bytes = text.size();
    std::memcpy(all.data(), &header_bytes, sizeof(header_bytes));
    directory_.write("model/model.safetensors", all + text + data + std::string(4, 0));
    forget_checksums();
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const fs::path& one : list_checkpoints(output())) names.push_back(one.filename());
    return names;
  }
};

TEST_F(CliFlags, PredictionsGoIntoOutputDir) {
  const ProgramRun result = succeed(predict_words());
  const fs::path file = output() / "predictions.jsonl";
  EXPECT_TRUE(contains(result.output, "24 predictions in " + file.string()));
  const std::string lines = read_text_file(file);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 24);
  EXPECT_TRUE(contains(run({"predict", "--help"}).output, "output_dir/predictions.jsonl"));
}

// Standard output is one JSON object; what people read is elsewhere.
TEST_F(CliFlags, JsonIsOneObject) {
  const ProgramRun trained = succeed(train_words({"--validation_file", path("validation.csv"), "--json"}));
  EXPECT_EQ(parse_json(trained.output, "output"), read_json(output() / "all_results.json"));
  EXPECT_TRUE(contains(trained.error, "***** eval metrics *****"));
  EXPECT_TRUE(contains(trained.error, "step 2  epoch"));

  const ProgramRun evaluated = succeed(eval_words({"--json"}));
  EXPECT_EQ(parse_json(evaluated.output, "output"), read_json(output() / "eval_results.json"));
  EXPECT_TRUE(parse_json(evaluated.output, "output").contains("eval_accuracy"));

  const json predicted = parse_json(succeed(predict_words({"--json"})).output, "output");
  EXPECT_EQ(predicted["predict_samples"], 24);
  EXPECT_EQ(predicted["output_file"], (output() / "predictions.jsonl").string());
  EXPECT_GT(predicted["predict_runtime"].get<double>(), 0);
}

TEST_F(CliFlags, AnomalyOfAnEvaluationIsNamed) {
  break_a_weight();
  succeed(eval_words());
  for (const std::vector<std::string>& words :
       {eval_words({"--detect_anomaly"}), predict_words({"--detect_anomaly"})})
    expect_failure(words, 1, {"--detect_anomaly", "matmul", "layer 1 feed_forward", "forward"});
}

TEST_F(CliFlags, AWholeEvaluationHasNoAnomaly) {
  EXPECT_TRUE(contains(succeed(eval_words({"--detect_anomaly"})).output, "eval_accuracy"));
  directory_.write("texts.csv", "text\nglea stat\nhust\n");
  succeed(predict_words({"--test_file", path("texts.csv"), "--detect_anomaly"}));
}

// A resume takes the highest number in output_dir, so that runs may not mix there.
TEST_F(CliFlags, CheckpointsOfAnEarlierRun) {
  succeed(train_words({"--save_steps", "2"}));
  ASSERT_EQ(checkpoints(), (std::vector<std::string>{"checkpoint-2", "checkpoint-4"}));
  const std::vector<std::string> before = written();
  expect_failure(train_words(), 2,
                 {"[--output_dir", "checkpoint-4", "--resume_from_checkpoint", "--overwrite_output_dir"});
  expect_failure(train_words({"--model_name_or_path", output() / "checkpoint-2", "--overwrite_output_dir"}),
                 2, {"[--overwrite_output_dir]", "checkpoint-2"});
  // What fails before it trains removes nothing.
  expect_failure(train_words({"--overwrite_output_dir", "--memory_budget", "1MiB"}), 2, {"[memory]"});
  EXPECT_EQ(written(), before);
  succeed(train_words({"--save_strategy", "no"}));
  fs::remove_all(output() / "checkpoint-4");
  succeed(train_words({"--save_steps", "2", "--resume_from_checkpoint"}));
  EXPECT_EQ(checkpoints(), (std::vector<std::string>{"checkpoint-2", "checkpoint-4"}));
  const ProgramRun anew = succeed(train_words({"--overwrite_output_dir", "--max_steps", "1"}));
  EXPECT_EQ(checkpoints(), std::vector<std::string>{"checkpoint-1"});
  EXPECT_TRUE(contains(anew.output, "removed " + (output() / "checkpoint-4").string()));
}

TEST_F(CliFlags, NoDoEval) {
  const std::vector<std::string> validation = {"--validation_file", path("validation.csv")};
  const auto trained = [&](std::vector<std::string> more) {
    fs::remove_all(output());
    more.insert(more.begin(), validation.begin(), validation.end());
    succeed(train_words(more));
    return fs::exists(output() / "eval_results.json");
  };
  EXPECT_TRUE(trained({}));
  EXPECT_FALSE(trained({"--no_do_eval"}));
  write_json_atomic(path("run.json"), json{{"do_eval", false}});
  EXPECT_FALSE(trained({"--config", path("run.json")}));
  EXPECT_TRUE(trained({"--no_do_eval", "--eval_strategy", "epoch"})) << "as in the Trainer";
}

TEST_F(CliFlags, APlanWithoutFilesIsOfOneMicroBatch) {
  constexpr int64_t kModest = int64_t{256}
                              << 20;  // oneDNN 3's code of the products of any such count is half of it
  const std::vector<std::string> words = {"plan", "--model", "bert-mini"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  // 1.6 GB of token ids, were they made.
  const ProgramRun steps =
      succeed(with({"--gradient_accumulation_steps", "100000", "--max_seq_length", "512"}));
  expect_peak_below(steps, kModest);
  // A gigabyte of them in one micro-batch; what does not fit is found out without them.
  const ProgramRun millions = run(
      {"plan", "--model", model(), "--per_device_train_batch_size", "4000000", "--memory_budget", "64GiB"});
  EXPECT_EQ(millions.exit_code, 2);
  EXPECT_TRUE(contains(millions.error, "[memory] expected a plan of at most 64.00 GiB"));
  expect_peak_below(millions, kModest);
  // That order keeps what the layers of every micro-batch hand on: a plan of 80,000 sequences.
  const ProgramRun kept =
      expect_failure(with({"--gradient_accumulation_steps", "10000", "--accumulation_order", "layer_major",
                           "--memory_budget", "1GiB"}),
                     2, {"[--gradient_accumulation_steps] expected at most", "got 10000"});
  expect_peak_below(kept, kModest);
  for (const char* batch : {"100000000", "4611686018427387904"}) {
    const ProgramRun result = expect_failure(with({"--per_device_train_batch_size", batch}), 2,
                                             {"per_device_train_batch_size", batch});
    expect_peak_below(result, kModest);
  }
  succeed(with({"--eval_strategy", "steps", "--load_best_model_at_end"}));
  succeed(with({"--eval_strategy", "epoch", "--save_strategy", "best", "--metric_for_best_model", "f1"}));
  expect_failure(with({"--train_file", path("train.csv")}), 2,
                 {"--train_file", "--model_name_or_path", "bert-mini"});
}

TEST_F(CliFlags, AWriteOfTheResultThatFailsIsAnError) {
  const auto exit_code_of = [&](const std::string& words) {
    const std::string command =
        fmt::format("'{}' {} > /dev/full 2> '{}'", SHOEHORN_PROGRAM, words, path("error").string());
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  // The last is longer than the buffer of standard output.
  for (const char* words :
       {"env --dtypes --json", "--help", "plan --model bert-mini --json", "train --help all"}) {
    EXPECT_EQ(exit_code_of(words), 1) << words;
    EXPECT_TRUE(contains(read_text_file(path("error")),
                         "[standard output] expected to write the whole result, got No space left on device"))
        << words;
  }
}

TEST_F(CliFlags, BytesThatAreNotUtf8AreCountedInEveryFile) {
  directory_.write("bad.csv", "text,label\nstat \xff\xfe glea,up\ncest \xc3,down\n");
  const std::string said = path("bad.csv").string() + ": 3 ill-formed stretches of UTF-8";
  EXPECT_TRUE(contains(succeed(train_words({"--validation_file", path("bad.csv")})).output, said));
  const std::vector<std::string> words =
      eval_words({"--validation_file", path("bad.csv"), "--model_name_or_path", output()});
  EXPECT_TRUE(contains(succeed(words).output, said));
  EXPECT_TRUE(contains(succeed(predict_words({"--test_file", path("bad.csv")})).output, said));
  EXPECT_TRUE(contains(succeed(predict_words({"--test_file", path("bad.csv"), "--json"})).error, said));
}

// As run_glue without --do_train.
TEST_F(CliFlags, TrainEvaluatesOnlyWhereItIsToldNotToTrain) {
  const std::vector<std::string> validation = {"--validation_file", path("labelled.csv"), "--no_do_train"};
  const ProgramRun result = succeed(train_words(validation));
  EXPECT_EQ(written(), (std::vector<std::string>{"all_results.json", "eval_results.json"}));
  EXPECT_TRUE(contains(result.output, "eval_accuracy"));
  EXPECT_TRUE(contains(result.output, "nothing is trained"));
  EXPECT_FALSE(contains(result.output, "train_loss"));
}

TEST_F(CliFlags, NoticesAreHiddenByLogLevel) {
  write_safetensors_with("cls.predictions.bias");
  for (const std::vector<std::string>& words : {eval_words(), predict_words(), train_words()}) {
    const std::string notice = "not used, the model has no such parameters: cls.predictions.bias";
    EXPECT_TRUE(contains(succeed(words).output, notice)) << words[0];
    std::vector<std::string> quiet = words;
    quiet.insert(quiet.end(), {"--log_level", "error", "--output_dir", path("quiet")});
    EXPECT_FALSE(contains(succeed(quiet).output, notice)) << words[0];
  }
}

// A resumed run says which flag or file is another than before.
TEST_F(CliFlags, AChangedResumeIsRefusedByName) {
  succeed(train_words({"--save_steps", "2"}));
  fs::remove_all(output() / "checkpoint-4");
  const auto resumed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--save_steps", "2", "--resume_from_checkpoint"});
    return train_words(more);
  };
  expect_failure(resumed({"--max_seq_length", "6"}), 2,
                 {"checkpoint-2", "--max_seq_length 64 → 6", "training data", "--allow_resume_changes"});
  expect_failure(resumed({"--label_smoothing_factor", "0.1"}), 2, {"--label_smoothing_factor 0 → 0.1"});
  expect_failure(resumed({"--bf16"}), 2, {"--bf16 false → true"});
  const ProgramRun permitted =
      succeed(resumed({"--max_seq_length", "6", "--allow_resume_changes", "--learning_rate", "1e-3"}));
  EXPECT_TRUE(contains(permitted.output, "changed since checkpoint-2: --max_seq_length 64 → 6"));
  EXPECT_TRUE(contains(permitted.output, "changed since checkpoint-2: --learning_rate 5e-05 → 0.001"));
  // A file of as many bytes and rows.
  std::string csv = read_text_file(path("train.csv"));
  csv.replace(csv.find("hust"), 4, "chai");
  directory_.write("train.csv", csv);
  fs::remove_all(output() / "checkpoint-4");
  expect_failure(resumed({}), 2, {"other samples: training data 48 samples of content"});
}

TEST_F(CliFlags, WhatHasNoEffectIsSaid) {
  const ProgramRun trained =
      run(train_words({"--save_strategy", "no", "--save_steps", "3", "--max_eval_samples", "2"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "save_steps has no effect: save_strategy is no\n")) << trained.output;
  EXPECT_TRUE(contains(trained.output, "max_eval_samples has no effect: nothing is evaluated\n"));
}

}  // namespace
}  // namespace shoehorn
