// The program's commands: what train leaves, what plan, eval, predict and bench step say, and that they
// agree.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/processors.h"
#include "cli_support.h"
#include "io/json_file.h"
#include "session/precision_report.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

std::vector<json> read_lines(const fs::path& file) {
  std::vector<json> lines;
  std::istringstream text(read_text_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, "line"));
  return lines;
}

int64_t arena_bytes(const json& metrics, const char* kind) {
  return metrics[fmt::format("memory_arena_{}_bytes", kind)].get<int64_t>();
}

class CliCommands : public CliTest {
 protected:
  // A run that learns the task.
  ProgramRun train_well(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = train_words({"--validation_file", path("validation.csv"), "--max_steps",
                                                  "60", "--learning_rate", "5e-3", "--logging_steps", "20"});
    words.insert(words.end(), more.begin(), more.end());
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }

  void expect_memory_agrees(const json& metrics) const {
    EXPECT_EQ(arena_bytes(metrics, "predicted"), arena_bytes(metrics, "measured"));
    const auto predicted = metrics["memory_process_predicted_bytes"].get<double>();
    const auto measured = metrics["memory_process_measured_bytes"].get<double>();
    if (measures_memory()) {
      EXPECT_NEAR(measured, predicted, std::max(0.02 * predicted, 8.0 * (1 << 20)));
    }
  }

  std::vector<json> predict(const fs::path& file, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"predict", "--model_name_or_path", output(),       "--test_file",
                                      file,      "--output_file",        path("p.jsonl")};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return read_lines(path("p.jsonl"));
  }
};

TEST_F(CliCommands, Help) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"--help"}, "shoehorn predict "},
      {{"train", "--help"}, "--output_dir"},
      {{"eval", "--help"}, "--validation_file"},
      {{"predict", "-h"}, "--test_file"},
      {{"plan", "--help"}, "--explain"},
      {{"anatomy", "--help"}, "--inference"},
      {{"bench", "--help"}, "shoehorn bench ladder "},
      {{"bench", "step", "--help"}, "--limits"},
      {{"bench", "batch", "--help"}, "--max "},
      {{"bench", "ladder", "--help"}, "--against"},
      {{"bench", "quality", "--help"}, "--rung_seeds"},
      {{"env", "--help"}, "--dtypes"},
  };
  for (const auto& [words, part] : commands) {
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    EXPECT_TRUE(contains(result.output, part)) << words[0] << " " << words.back();
  }
  EXPECT_EQ(run({}).exit_code, 2);
}

TEST_F(CliCommands, TrainLeavesADirectoryOfHuggingFaceFiles) {
  const ProgramRun result = train_well();
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "tokenizer_config.json",
        "special_tokens_map.json", "all_results.json", "train_results.json", "eval_results.json",
        "trainer_state.json", "checkpoint-60/trainer_state.json", "checkpoint-60/tokenizer.json"}) {
    EXPECT_TRUE(fs::exists(output() / name)) << name;
  }
  const json config = read_json(output() / "config.json");
  EXPECT_EQ(config["id2label"], (json{{"0", "down"}, {"1", "up"}}));
  EXPECT_EQ(config["label2id"], (json{{"down", 0}, {"up", 1}}));
  EXPECT_EQ(config["architectures"], json({"BertForSequenceClassification"}));
  const json results = read_json(output() / "all_results.json");
  EXPECT_EQ(results["eval_accuracy"], 1.0);
  EXPECT_EQ(results["eval_f1"], 1.0);
  for (const char* key :
       {"train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos",
        "epoch", "eval_loss", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"}) {
    EXPECT_TRUE(results.contains(key)) << key;
  }
  expect_memory_agrees(results);
  const json state = read_json(output() / "trainer_state.json");
  EXPECT_EQ(state["global_step"], 60);
  EXPECT_EQ(state["log_history"].size(), 4U);
  for (const char* key : {"loss", "grad_norm", "learning_rate", "epoch", "step"})
    EXPECT_TRUE(state["log_history"][0].contains(key)) << key;
  EXPECT_TRUE(contains(result.output, "48 training and 24 validation samples, 2 classes"));
  EXPECT_TRUE(contains(result.output, "peak of the whole process"));
  EXPECT_TRUE(contains(result.output, "step 20  epoch"));
  EXPECT_TRUE(contains(result.output, "predicted        measured"));
}

TEST_F(CliCommands, LogLevelErrorLeavesResultsOnly) {
  const ProgramRun trained = run(train_words({"--log_level", "error", "--logging_steps", "1"}));
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_EQ(trained.output + trained.error, "");
  const ProgramRun evaluated =
      run({"eval", "--model_name_or_path", output(), "--validation_file", path("validation.csv"),
           "--output_dir", output(), "--log_level", "error"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.error;
  EXPECT_TRUE(evaluated.output.starts_with("***** eval metrics *****")) << evaluated.output;
  EXPECT_EQ(evaluated.error, "");
}

TEST_F(CliCommands, ConfigFileEqualsFlags) {
  ASSERT_EQ(run(train_words({"--seed", "3", "--bf16"})).exit_code, 0);
  json config = {{"model_name_or_path", model().string()},
                 {"train_file", path("train.csv").string()},
                 {"output_dir", path("other").string()},
                 {"max_steps", 4},
                 {"logging_steps", 2},
                 {"per_device_train_batch_size", 8},
                 {"seed", 3},
                 {"bf16", true}};
  write_json_atomic(path("run.json"), config);
  ASSERT_EQ(run({"train", "--config", path("run.json")}).exit_code, 0);
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") ==
              read_text_file(path("other") / "model.safetensors"));
}

// Without a training file the plan is for the longest samples that the model takes.
TEST_F(CliCommands, PlanFindsABatchThatFits) {
  if (kIsSanitized)
    GTEST_SKIP() << "what a search leaves in the quarantine is part of the next plan's process";
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"plan",
                                      "--model_name_or_path",
                                      model().string(),
                                      "--output_dir",
                                      output().string(),
                                      "--auto_find_batch_size",
                                      "--per_device_train_batch_size"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.output;
  };
  const auto peak = [&](const char* batch) {
    return parse_json(plan({batch, "--json"}), "output")["process_peak_bytes"].get<int64_t>();
  };
  // Their arenas differ by more than the processes that plan them do from one time to the next.
  const std::string budget = std::to_string((peak("384") + peak("192")) / 2);
  const json found = parse_json(plan({"384", "--memory_budget", budget, "--json"}), "output");
  EXPECT_EQ(found["fits"], true);
  EXPECT_LT(found["per_device_train_batch_size"].get<int64_t>(), 384);
  EXPECT_GE(found["per_device_train_batch_size"].get<int64_t>(), 192);
  EXPECT_TRUE(contains(plan({"384", "--memory_budget", budget}), "a device in place of 384"));
}

// The set of a plan is taken as it was printed, and trains the same weights.
TEST_F(CliCommands, ARecomputeSetIsPrintedAndTaken) {
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = train_words(more);
    words[0] = "plan";
    words.emplace_back("--json");
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return parse_json(result.output, "output");
  };
  const json chosen = plan({"--activation_budget", "0.25"});
  EXPECT_FALSE(chosen["recompute_set"].empty());
  const std::string file = path("plan.json");
  write_text_atomic(file, chosen.dump());
  EXPECT_EQ(plan({"--recompute_set", file})["program"], chosen["program"]);
  EXPECT_LT(chosen["arena_bytes"].get<int64_t>(), plan({})["arena_bytes"].get<int64_t>());
  expect_failure(train_words({"--recompute_set", file, "--gradient_checkpointing"}), 2,
                 {"--recompute_set", "--gradient_checkpointing"});
  expect_failure(train_words({"--activation_budget", "1KiB"}), 2,
                 {"--activation_budget", "expected at least"});
  const ProgramRun trained = run(train_words({"--recompute_set", file}));
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
}

TEST_F(CliCommands, PlanSaysWhatTrainWillTake) {
  const std::vector<std::string> settings = {"--gradient_accumulation_steps", "2", "--gradient_checkpointing",
                                             "--validation_file", path("validation.csv")};
  std::vector<std::string> words = train_words(settings);
  words[0] = "plan";
  const ProgramRun table = run(words);
  EXPECT_EQ(table.exit_code, 0) << table.error;
  EXPECT_TRUE(contains(table.output, "peak of the whole process"));
  words.push_back("--json");
  const ProgramRun planned = run(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_TRUE(written().empty());
  const json plan = parse_json(planned.output, "output");
  int64_t arenas = 0;
  for (const json& arena : plan["arenas"]) {
    EXPECT_EQ(arena["space"], "host");
    EXPECT_GE(arena["bytes"].get<int64_t>(), arena["lower_bound_bytes"].get<int64_t>());
    arenas += arena["bytes"].get<int64_t>();
  }
  EXPECT_EQ(plan["arena_bytes"], arenas);
  for (const char* key : {"by_role", "by_component"}) {
    int64_t sum = 0;
    for (const auto& [name, bytes] : plan[key].items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, arenas) << key;
  }
  EXPECT_EQ(plan["fits"], true);
  EXPECT_GT(plan["budget_bytes"].get<int64_t>(), 0);
  EXPECT_EQ(plan["process_peak_bytes"].get<int64_t>(),
            std::max(arenas + plan["process_overhead_bytes"].get<int64_t>(),
                     plan["planning_peak_bytes"].get<int64_t>()));

  ASSERT_EQ(run(train_words(settings)).exit_code, 0);
  const json results = read_json(output() / "all_results.json");
  EXPECT_EQ(arena_bytes(results, "predicted"), arenas);
  EXPECT_NEAR(results["memory_process_predicted_bytes"].get<double>(),
              plan["process_peak_bytes"].get<double>(), 4 << 20);
  expect_memory_agrees(results);
}

TEST_F(CliCommands, PlanNeedsNoFilesForKnownShapes) {
  const ProgramRun result = run({"plan", "--model", "bert-large", "--per_device_train_batch_size", "4",
                                 "--max_seq_length", "512", "--bf16", "--json", "--memory_budget", "64GiB"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(parse_json(result.output, "output")["parameters"], 335143938);
  expect_peak_below(result, int64_t{200} << 20);
}

TEST_F(CliCommands, PredictAndEval) {
  train_well();
  const std::vector<json> lines = predict(path("validation.csv"));
  ASSERT_EQ(lines.size(), 24U);
  std::istringstream csv(read_text_file(path("validation.csv")));
  std::string row;
  std::getline(csv, row);
  for (const json& line : lines) {
    std::getline(csv, row);
    EXPECT_EQ(line["label"], row.substr(row.find(',') + 1));
    ASSERT_EQ(line["scores"].size(), 2U);
    const double down = line["scores"]["down"].get<double>();
    const double up = line["scores"]["up"].get<double>();
    EXPECT_NEAR(down + up, 1, 1e-12);
    EXPECT_EQ(line["label"], up > down ? "up" : "down");
  }

  const std::vector<json> raw = predict(path("validation.csv"), {"--logits"});
  for (size_t i = 0; i < lines.size(); ++i) {
    const double difference = raw[i]["logits"]["up"].get<double>() - raw[i]["logits"]["down"].get<double>();
    EXPECT_NEAR(lines[i]["scores"]["up"].get<double>(), 1 / (1 + std::exp(-difference)), 1e-12);
  }
  // Other batches, the same numbers up to rounding: each text is its own.
  const std::vector<json> alone =
      predict(path("validation.csv"), {"--logits", "--per_device_eval_batch_size", "1"});
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_NEAR(alone[i]["logits"]["down"].get<double>(), raw[i]["logits"]["down"].get<double>(), 1e-5)
        << "line " << i;
  }

  const ProgramRun result = run({"eval", "--model_name_or_path", output(), "--validation_file",
                                 path("train.csv"), "--output_dir", path("evaluated")});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json metrics = read_json(path("evaluated") / "eval_results.json");
  EXPECT_EQ(metrics["eval_accuracy"], 1.0);
  EXPECT_LT(metrics["eval_loss"].get<double>(), 0.1);
  EXPECT_TRUE(contains(result.output, "eval_accuracy"));
}

TEST_F(CliCommands, HalfPrecisionFromTrainingToPrediction) {
  const ProgramRun trained = train_well({"--fp16", "--fp16_full_eval", "--initial_scale_power", "12"});
  EXPECT_TRUE(contains(trained.output, "fp16 products: " + half_products_text(true)));
  EXPECT_TRUE(contains(trained.output, "loss_scale"));
  const json results = read_json(output() / "all_results.json");
  EXPECT_EQ(results["eval_accuracy"], 1.0);
  EXPECT_TRUE(results["loss_scale"].is_number());
  EXPECT_TRUE(results["skipped_steps"].is_number_integer());
  expect_memory_agrees(results);
  const std::vector<json> full = predict(path("validation.csv"), {"--logits"});
  double largest = 0;
  for (const json& line : full) largest = std::max(largest, std::abs(line["logits"]["down"].get<double>()));
  for (const char* flag : {"--fp16_full_eval", "--bf16_full_eval", "--fp16", "--bf16"}) {
    // Some 25 ops in a row round what they store, by half a step each; four standard deviations of their sum.
    const double half_step = std::string_view(flag).starts_with("--fp16") ? 0x1p-11 : 0x1p-8;
    const double tolerance = 4 * std::sqrt(25.0) * half_step * largest;
    const std::vector<json> half = predict(path("validation.csv"), {"--logits", flag});
    double difference = 0;
    for (size_t i = 0; i < full.size(); ++i) {
      difference = std::max(difference, std::abs(half[i]["logits"]["down"].get<double>() -
                                                 full[i]["logits"]["down"].get<double>()));
    }
    EXPECT_GT(difference, 0) << flag;
    EXPECT_LT(difference, tolerance) << flag;
    const ProgramRun result = run({"eval", "--model_name_or_path", output(), "--validation_file",
                                   path("train.csv"), "--output_dir", path("evaluated"), flag});
    ASSERT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(read_json(path("evaluated") / "eval_results.json")["eval_accuracy"], 1.0) << flag;
  }
}

TEST_F(CliCommands, EnvTellsTheTypes) {
  const ProgramRun table = run({"env", "--dtypes"});
  ASSERT_EQ(table.exit_code, 0) << table.error;
  for (const char* part :
       {"float16", "65504", "0.333251953125", "inf", "tfloat32", "float8_e4m3fn", "448", "it needs a GPU"})
    EXPECT_TRUE(contains(table.output, part)) << part;
  for (const bool is_fp16 : {false, true})
    EXPECT_TRUE(contains(table.output, "products " + half_products_text(is_fp16)));
  const ProgramRun listed = run({"env", "--dtypes", "--json"});
  ASSERT_EQ(listed.exit_code, 0) << listed.error;
  const json rows = parse_json(listed.output, "output");
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(rows[4]["dtype"], "float16");
  EXPECT_EQ(rows[4]["epsilon"], 0x1p-10);
  EXPECT_EQ(rows[4]["one_million"], "inf");
}

// The labels of a model are its own: another order of rows, or a file with only one of them, changes none.
TEST_F(CliCommands, EvalUsesTheModelsLabels) {
  train_well();
  directory_.write("one.csv", "text,label\nglea stat,up\nstat glea hust,up\n");
  const ProgramRun result = run({"eval", "--model_name_or_path", output(), "--validation_file",
                                 path("one.csv"), "--output_dir", path("evaluated")});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(read_json(path("evaluated") / "eval_results.json")["eval_accuracy"], 1.0);
  directory_.write("new.csv", "text,label\nglea stat,left\n");
  expect_failure({"eval", "--model_name_or_path", output(), "--validation_file", path("new.csv"),
                  "--output_dir", path("evaluated")},
                 2, {"new.csv", "left"});
}

TEST_F(CliCommands, EvalNeedsLabelsAndPredictDoesNot) {
  train_well();
  directory_.write("plain.csv", "text,kind\nglea stat,up\nstat hust,down\n");
  const std::vector<std::string> words = {"eval",           "--model_name_or_path", output(),
                                          "--output_dir",   path("evaluated"),      "--validation_file",
                                          path("plain.csv")};
  expect_failure(words, 2, {"plain.csv", "text, kind", "label_column_name"});
  EXPECT_FALSE(fs::exists(path("evaluated")));
  std::vector<std::string> named = words;
  named.insert(named.end(), {"--label_column_name", "kind", "--text_column_names", "text"});
  ASSERT_EQ(run(named).exit_code, 0);
  EXPECT_EQ(read_json(path("evaluated") / "eval_results.json")["eval_accuracy"], 1.0);
  EXPECT_EQ(predict(path("plain.csv"), {"--text_column_names", "text"}).size(), 2U);
}

TEST_F(CliCommands, BenchStepPrintsOneObject) {
  const ProgramRun result = run({"bench", "step", "--model", model(), "--sequence_length", "32",
                                 "--per_device_train_batch_size", "2", "--max_steps", "3", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json object = parse_json(result.output, "output");
  for (const char* key :
       {"samples_per_second", "step_seconds", "first_step_seconds", "flops_per_step", "limit_share"}) {
    ASSERT_TRUE(object[key].is_number()) << key;
    EXPECT_GT(object[key].get<double>(), 0) << key;
  }
  EXPECT_NEAR(object["samples_per_second"].get<double>() * object["step_seconds"].get<double>(), 2, 1e-9);
  expect_memory_agrees(object);
}

TEST_F(CliCommands, BenchStepSaysWhatItMeasured) {
  const std::vector<std::string> words = {"bench",
                                          "step",
                                          "--model",
                                          model(),
                                          "--sequence_length",
                                          "32",
                                          "--per_device_train_batch_size",
                                          "2",
                                          "--gradient_accumulation_steps",
                                          "3",
                                          "--max_steps",
                                          "2",
                                          "--no_limits"};
  const ProgramRun shown = run(words);
  ASSERT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_TRUE(contains(shown.output,
                       "Training step, 3 x 2 sequences of 32 tokens (192 tokens a step), median of 1 after"))
      << shown.output;
  EXPECT_TRUE(contains(shown.output, "tokens a second"));
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const json object = parse_json(run(as_json).output, "output");
  EXPECT_EQ(object["step"], "3 x 2 sequences of 32 tokens (192 tokens a step)");
  EXPECT_NEAR(object["tokens_per_second"].get<double>() * object["step_seconds"].get<double>(), 192, 1e-9);
}

// Processes that do nothing but take a processor's time.
class BusyProcesses {
 public:
  explicit BusyProcesses(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      pids_.push_back(fork());
      if (pids_.back() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (std::atomic<int64_t> spins = 0;; ++spins) {
      }
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;
  ~BusyProcesses() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

TEST_F(CliCommands, EnvSaysThatOthersUsedTheProcessors) {
  const BusyProcesses busy(processors().allowed);
  const ProgramRun listed = run({"env", "--json"});
  ASSERT_EQ(listed.exit_code, 0) << listed.error;
  const json used = parse_json(listed.output, "output")["processors"]["used_by_others"];
  if (used.is_null()) GTEST_SKIP() << "the system does not say how busy its processors are";
  EXPECT_GT(used.get<double>(), 0.2);
  const ProgramRun shown = run({"env"});
  EXPECT_TRUE(contains(shown.output, "other processes used ")) << shown.output;
  EXPECT_TRUE(contains(shown.output, "; idle, the machine reaches more")) << shown.output;
}

}  // namespace
}  // namespace shoehorn
