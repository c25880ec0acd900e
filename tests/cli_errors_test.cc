// The program and what users get wrong: a clear message, the right exit code, nothing half-written.
#include <sys/mount.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli_support.h"
#include "io/json_file.h"
#include "io/safetensors.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

class CliErrors : public CliTest {};

TEST_F(CliErrors, CommandLine) {
  expect_failure({"trian"}, 2, {"'trian'", "did you mean train?"});
  expect_failure({"bench", "stride"}, 2, {"batch, ladder, parallel, quality, step", "'stride'"});
  expect_failure(train_words({"--learning_rat", "1"}), 2,
                 {"--learning_rat", "did you mean --learning_rate?"});
  expect_failure(train_words({"--learning_rate", "fast"}), 2, {"--learning_rate", "'fast'"});
  expect_failure(train_words({"--tf32", "true"}), 2, {"--tf32", "it needs an NVIDIA GPU"});
  expect_failure(train_words({"--fp16", "--update_in_backward", "--max_grad_norm", "0"}), 2,
                 {"update_in_backward", "dynamic", "loss_scale"});
  expect_failure(train_words({"--deepspeed", R"({"stage": 3})"}), 2,
                 {"--deepspeed: stage", "zero_optimization.stage"});
  expect_failure(train_words({"--fsdp", "full_shard offload"}), 2, {"--fsdp", "not in this version yet"});
  expect_failure(train_words({"--optim", "muon"}), 2, {"--optim", "muon", "adamw_torch"});
  expect_failure(train_words({"--eval_strategy", "epoch"}), 2, {"--validation_file", "evaluation set"});
  expect_failure(train_words({"--update_in_backward"}), 2, {"update_in_backward", "max_grad_norm 0"});
  expect_failure({"train", "--train_file", path("train.csv")}, 2, {"--model_name_or_path"});
  EXPECT_TRUE(written().empty());
}

// Small commands know what was meant, as the large ones do.
TEST_F(CliErrors, EveryCommandNamesTheNearestFlagOrWord) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> slips = {
      {{"env", "--jsn"}, "did you mean --json?"},
      {{"env", "jsn"}, "did you mean --json?"},
      {{"env", "--dtype"}, "did you mean --dtypes?"},
      {{"env", "--thread", "2"}, "expected a known flag, got 'thread'"},
      {{"calibrate", "--quik"}, "did you mean --quick?"},
      {{"calibrate", "quick"}, "did you mean --quick?"},
      {{"compare", "a", "b", "--reprt", "x"}, "did you mean --report?"},
      {{"topo", "--jso"}, "did you mean --json?"},
      {{"tokenizer", "encod", "a", "b"}, "did you mean encode?"},
      {{"tokenizer"}, "[tokenizer] expected encode, decode or train, got nothing"},
      {{"tokenizer", "encode", "a", "--ofsets", "b"}, "did you mean --offsets?"},
      {{"tokenizer", "train", "--vocabsize", "9", "a"}, "did you mean --vocab_size?"},
      {{"generate", "--temp", "2"}, "did you mean --temperature?"},
      {{"completion", "bsh"}, "did you mean bash?"},
      {{"bench", "step", "--limit"}, "did you mean --limits?"},
      {{"bench"}, "got nothing"},
      {{"anatomy", "--inferenc"}, "did you mean --inference?"},
      {{"fit", "--alow", "exact"}, "did you mean --allow?"},
      {{"plan", "--machine_profil", "a100"}, "did you mean --machine_profile?"},
      {{"launch", "--nproc", "2", "train"}, "did you mean --nproc_per_node?"},
      {{"launch", "trian", "--bf16"}, "got 'trian'; did you mean train?"},
      {{"launch", "python", "x.py"}, "got 'python'; `shoehorn launch --nproc_per_node 4 train …`"},
      {{"launch"}, "got nothing; `shoehorn launch --nproc_per_node 4 train …`"},
      {{"--hlp"}, "did you mean --help?"},
      {{"--versoin"}, "did you mean --version?"},
  };
  for (const auto& [words, said] : slips) expect_failure(words, 2, {said});
}

// A place for output that cannot be is the user's mistake in every command, and is told before the work.
TEST_F(CliErrors, PlacesForOutputHaveOneRule) {
  const std::string test_file = path("train.csv");
  const std::vector<std::string> planned = {"--model", "bert-mini", "--sequence_length", "16"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<std::vector<std::string>> commands = {
      train_words({"--output_dir", "/proc/x"}),
      train_words({"--report_to", "tensorboard", "--logging_dir", "/proc/x"}),
      train_words({"--dump_program", "/proc/x"}),
      train_words({"--dataset_cache", "/proc/x"}),
      {"eval", "--model_name_or_path", model(), "--validation_file", test_file, "--output_dir", "/proc/x"},
      {"predict", "--model_name_or_path", model(), "--test_file", test_file, "--output_dir", "/proc/x"},
      {"predict", "--model_name_or_path", model(), "--test_file", test_file, "--output_file",
       "/proc/x/p.csv"},
      with({"bench", "step", "--profile", "1", "--output_dir", "/proc/x"}, planned),
      with({"bench", "batch", "--max", "1", "--report", "/proc/x/y.html"}, planned),
      with({"anatomy", "--no_limits", "--json_file", "/proc/x/y.json"}, planned),
      with({"fit", "--report", "/proc/x/y.html"}, planned),
      {"tokenizer", "train", "--vocab_size", "300", "--output_dir", "/proc/x", test_file},
      {"topo", "--json_file", "/proc/x/y.json"},
  };
  for (const std::vector<std::string>& words : commands)
    expect_failure(words, 2, {"[/proc/x] expected a directory that can be written, or made"});
  expect_failure({"topo", "--json_file", path("out") / ""}, 2, {"expected the name of a file"});
}

TEST_F(CliErrors, VersionIsNoCommand) {
  const ProgramRun version = run({"--version"});
  EXPECT_EQ(version.exit_code, 0) << version.error;
  EXPECT_EQ(version.output.rfind("shoehorn ", 0), 0U) << version.output;
}

TEST_F(CliErrors, ConfigFile) {
  directory_.write("run.json", R"({"learning_rate": 1e-3, "lerning_rate": 2})");
  expect_failure(train_words({"--config", path("run.json")}), 2,
                 {"run.json", "lerning_rate", "did you mean"});
  directory_.write("run.json", R"({"learning_rate": )");
  expect_failure(train_words({"--config", path("run.json")}), 2, {"run.json:1", "expected JSON"});
  EXPECT_TRUE(written().empty());
}

TEST_F(CliErrors, ModelDirectory) {
  expect_failure(train_words({"--model_name_or_path", path("absent")}), 2, {"absent", "directory"});
  expect_failure(train_words({"--model_name_or_path", "google-bert/bert-base-uncased"}), 2,
                 {"bert-base-uncased", "downloaded"});
  fs::rename(model() / "tokenizer.json", path("tokenizer.json"));
  fs::rename(model() / "vocab.txt", path("vocab.txt"));
  expect_failure(train_words(), 2, {"model", "tokenizer"});
  fs::rename(path("tokenizer.json"), model() / "tokenizer.json");
  fs::rename(model() / "config.json", path("config.json"));
  expect_failure(train_words(), 2, {"config.json"});
  EXPECT_TRUE(written().empty());
}

TEST_F(CliErrors, ConfigThatIsNotTheWeights) {
  json config = read_json(model() / "config.json");
  const json saved = config;
  config["intermediate_size"] = 72;
  write_json_atomic(model() / "config.json", config);
  expect_failure(train_words(), 2, {"intermediate.dense.bias", "[72]", "[64]", "config.json"});
  config = saved;
  config["num_hidden_layers"] = 3;
  write_json_atomic(model() / "config.json", config);
  expect_failure(train_words(), 2, {"bert.encoder.layer.2.", "got none"});
  config = saved;
  config["vocab_size"] = 100;
  write_json_atomic(model() / "config.json", config);
  expect_failure(train_words(), 2, {"token ids below 100", "tokenizer"});
  config = saved;
  config["model_type"] = "t5";
  write_json_atomic(model() / "config.json", config);
  expect_failure(train_words(), 2, {"model_type", "t5"});
  config = saved;
  config["hidden_size"] = "wide";
  write_json_atomic(model() / "config.json", config);
  expect_failure(train_words(), 2, {"hidden_size", "\"wide\""});
  EXPECT_TRUE(written().empty());
}

TEST_F(CliErrors, WeightsFile) {
  forget_checksums();  // whose message would come first
  const fs::path file = model() / "model.safetensors";
  const std::string whole = read_text_file(file);
  fs::resize_file(file, whole.size() / 2);
  expect_failure(train_words(), 2, {"model.safetensors"});
  fs::resize_file(file, 5);
  expect_failure(train_words(), 2, {"model.safetensors"});
  directory_.write("model/model.safetensors", "");
  expect_failure(train_words(), 2, {"model.safetensors"});
  // A header that claims more bytes than any file has.
  std::string lying = whole;
  lying[6] = '\x7f';
  directory_.write("model/model.safetensors", lying);
  expect_failure(train_words(), 2, {"model.safetensors"});
  // Offsets that point behind the end.
  lying = whole;
  const size_t at = lying.find("\"data_offsets\":[") + 16;
  lying.replace(at, 1, "9");
  directory_.write("model/model.safetensors", lying);
  expect_failure(train_words(), 2, {"model.safetensors"});
  EXPECT_TRUE(written().empty());
}

TEST_F(CliErrors, DataFiles) {
  directory_.write("train.csv", "");
  expect_failure(train_words(), 2, {"train.csv"});
  directory_.write("train.csv", "text,label\n");
  expect_failure(train_words(), 2, {"train.csv"});
  directory_.write("train.csv", "text,label\nstat,up\ncest,up\n");
  expect_failure(train_words(), 2, {"train.csv", "two different labels"});
  directory_.write("train.csv", "text,label\nstat,up\ncest,down\n");
  directory_.write("validation.csv", "text,label\nhust,sideways\n");
  expect_failure(train_words({"--validation_file", path("validation.csv")}), 2,
                 {"validation.csv", "sideways"});
  directory_.write("train.csv", "text,label\nstat,up\ncest\n");
  expect_failure(train_words(), 2, {"train.csv:3"});
  directory_.write("train.csv", "text,label\nstat,up\ncest,down\n");
  expect_failure(train_words({"--text_column_names", "sentence"}), 2, {"sentence", "text"});
  expect_failure(train_words({"--train_file", path("absent.csv")}), 2, {"absent.csv"});
  expect_failure(train_words({"--train_file", path("model")}), 2, {"model"});
  EXPECT_TRUE(written().empty());
}

TEST_F(CliErrors, InvalidUtf8IsCountedAndRead) {
  directory_.write("train.csv", "text,label\nstat \xff\xfe glea,up\ncest \xc3,down\nhust,down\nglea,up\n");
  const ProgramRun result = run(train_words({"--max_steps", "1"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.output, "3 ill-formed stretches of UTF-8"));
}

TEST_F(CliErrors, EmptyTextsAreCounted) {
  directory_.write("train.csv", "text,label\nstat,up\n,down\nhust,down\n\"\",up\n");
  const ProgramRun result = run(train_words({"--max_steps", "1"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.output, "train.csv: 2 empty texts are kept\n")) << result.output;
}

TEST_F(CliErrors, OutputThatCannotBeWritten) {
  directory_.write("file", "x");
  const std::string under_a_file = path("file") / "out";
  const ProgramRun result =
      expect_failure(train_words({"--output_dir", under_a_file}), 2, {path("file").string()});
  EXPECT_FALSE(contains(result.output, "step 2")) << "the run should end before it trains";
  expect_failure({"predict", "--model_name_or_path", model(), "--test_file", path("validation.csv"),
                  "--output_file", path("file") / "p.jsonl"},
                 2, {path("file").string()});
  EXPECT_EQ(read_text_file(path("file")), "x");
}

// The limit on a file's size fails the same calls that a full disk fails.
TEST_F(CliErrors, FullDiskLeavesTheLastCheckpoint) {
  ASSERT_EQ(run(train_words({"--max_steps", "1", "--save_steps", "1"})).exit_code, 0);
  const std::vector<std::string> before = written();
  expect_failure(train_words({"--max_steps", "3", "--save_steps", "1", "--resume_from_checkpoint"}), 1,
                 {"checkpoint-2"}, {.file_bytes = 100000});
  EXPECT_EQ(written(), before);
  EXPECT_EQ(run(train_words({"--max_steps", "3", "--save_steps", "1", "--resume_from_checkpoint"})).exit_code,
            0);
}

TEST_F(CliErrors, FullFileSystem) {
  const fs::path small = path("small");
  fs::create_directory(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=300k") != 0)
    GTEST_SKIP() << "no permission to mount a small file system";
  expect_failure(train_words({"--output_dir", small, "--save_steps", "1"}), 2,
                 {small.string(), "free on its disk"});
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(small)) left.push_back(entry.path().filename());
  EXPECT_TRUE(left.empty()) << testing::PrintToString(left);
  EXPECT_EQ(umount2(small.c_str(), MNT_DETACH), 0);
}

TEST_F(CliErrors, PlanThatDoesNotFitIsRefusedBeforeItReserves) {
  directory_.write("train.csv", labelled_csv(1280, 4));
  const std::vector<std::string> batch = {"--per_device_train_batch_size", "1280"};
  std::vector<std::string> words = train_words(batch);
  words[0] = "plan";
  words.emplace_back("--json");
  const json plan = parse_json(run(words).output, "output");
  const auto overhead = plan["process_overhead_bytes"].get<int64_t>();
  const auto arenas = plan["arena_bytes"].get<int64_t>();
  ASSERT_GT(arenas, int64_t{24} << 20) << "large beside what a refused process may take";
  const int64_t budget = overhead + arenas * 3 / 5;
  const std::vector<std::string> limit = {"--memory_budget", std::to_string(budget)};

  std::vector<std::string> limited = train_words(batch);
  limited.insert(limited.end(), limit.begin(), limit.end());
  const ProgramRun result =
      expect_failure(limited, 2,
                     {"[memory]", "too much; nothing was reserved",
                      "Fits, with the same sums in another order:", "--gradient_accumulation_steps", "iB  ",
                      "(--memory_budget)"});
  EXPECT_FALSE(contains(result.error, "Other processes")) << "what others hold does not bind";
  expect_peak_below(result, overhead + (int64_t{12} << 20), fmt::format("of arenas of {}", arenas));
  EXPECT_TRUE(written().empty());

  words.insert(words.end(), limit.begin(), limit.end());
  const ProgramRun refused = run(words);
  EXPECT_EQ(refused.exit_code, 2);
  const json refused_plan = parse_json(refused.output, "output");
  EXPECT_EQ(refused_plan["fits"], false);
  EXPECT_EQ(refused_plan["budget_bytes"], budget);
  EXPECT_EQ(refused_plan["limit"], json({{"kind", "budget"}, {"bytes", budget}}));

  // The first change that is offered does fit, and trains.
  const size_t at = result.error.find("--per_device_train_batch_size");
  ASSERT_NE(at, std::string::npos) << result.error;
  std::istringstream flags(result.error.substr(at, result.error.find('\n', at) - at));
  for (std::string flag; flags >> flag;) limited.push_back(flag);
  EXPECT_EQ(run(limited).exit_code, 0);
}

TEST_F(CliErrors, LargeModelIsRefusedInASmallProcess) {
  const ProgramRun result =
      expect_failure({"bench", "step", "--model", "bert-large", "--memory_budget", "1GiB"}, 2, {"[memory]"});
  expect_peak_below(result, int64_t{200} << 20);
}

// A weight that is no number: without the flag the loss shows it, with it the first op that meets it is
// named.
TEST_F(CliErrors, AnomalyIsNamed) {
  break_a_weight();

  const ProgramRun shown = run(train_words());
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_TRUE(contains(shown.output, "loss nan"));
  EXPECT_TRUE(contains(shown.output, "a loss was not finite: --detect_anomaly names the op"));
  EXPECT_TRUE(contains(shown.output, "4 of 4 steps had a loss that is not finite"));
  EXPECT_EQ(read_json(output() / "all_results.json")["nonfinite_losses"], 4);

  fs::remove_all(output());
  expect_failure(train_words({"--detect_anomaly"}), 1,
                 {"--detect_anomaly", "matmul", "layer 1 feed_forward", "forward"});
}

}  // namespace
}  // namespace shoehorn
