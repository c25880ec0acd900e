// bench ladder and bench batch as programs: what they print, what they measure, and what they say of settings
// that cannot run.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "cli_support.h"
#include "exec/backends.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliBench : public CliTest {
 protected:
  // A ladder of the test's model, which is small.
  std::vector<std::string> ladder(std::vector<std::string> more) const {
    std::vector<std::string> words = {"bench", "ladder", "--model", model(), "--sequence_length", "32"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  json run_json(const std::vector<std::string>& words, int exit_code = 0) const {
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, exit_code) << result.output << result.error;
    EXPECT_EQ(result.error, "");
    return parse_json(result.output, "output");
  }
};

double megabytes(const json& bytes) {
  return bytes.get<double>() / (1 << 20);
}

TEST_F(CliBench, QuickLadder) {
  if (kIsSanitized) GTEST_SKIP() << "too slow under a sanitizer; single rungs are run below";
  const ProgramRun result = run(
      {"bench", "ladder", "--quick", "--steps", "2", "--repeats", "1", "--json_file", path("ladder.json")});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.error, "");
  const json ladder = read_json(path("ladder.json"));
  ASSERT_EQ(ladder["rungs"].size(), 28U);
  EXPECT_EQ(ladder["left_out"].size(), 0U);
  EXPECT_EQ(ladder["repeats"], 1);
  // torch.compile changes nothing on our side: one program, one measurement.
  std::map<std::string, json> by_name;
  for (const json& rung : ladder["rungs"]) by_name[rung["name"]] = rung;
  EXPECT_EQ(by_name["bf16_compile"]["same_program_as"], by_name["bf16"]["setting"]);
  EXPECT_EQ(by_name["bf16_compile"]["ours"]["step_samples"], by_name["bf16"]["ours"]["step_samples"]);
  EXPECT_FALSE(by_name["bf16"].contains("same_program_as"));
  EXPECT_FALSE(by_name["accumulation"].contains("same_program_as"));
  for (const json& rung : ladder["rungs"]) {
    EXPECT_TRUE(contains(result.output, rung["setting"].get<std::string>()));
    const json& ours = rung["ours"];
    ASSERT_EQ(ours["outcome"], "measured") << rung["name"] << ours;
    EXPECT_GT(ours["samples_per_second"].get<double>(), 0);
    EXPECT_GT(ours["first_step_seconds"].get<double>(), 0);
    const json& memory = ours["memory"];
    EXPECT_GT(memory["process_bytes"].get<int64_t>(), 0);
    EXPECT_LT(memory["process_bytes"], memory["with_weights_bytes"]);
    EXPECT_LT(memory["with_weights_bytes"], memory["training_bytes"]);
    EXPECT_NEAR(megabytes(ours["predicted_bytes"]), megabytes(memory["training_bytes"]),
                std::max(8.0, 0.02 * megabytes(memory["training_bytes"])))
        << rung["name"];
  }
  EXPECT_NE(contains(result.output, "shoehorn's fp16 products: as fp32 panels"),
            this_machine().has_products_of(DType::kF16));
  EXPECT_EQ(ladder["rungs"][0]["ours"]["relative_time"], 1.0);
  // The exact techniques are there to take less memory.
  std::map<std::string, double> memory;
  for (const json& rung : ladder["rungs"]) memory[rung["name"]] = rung["ours"]["relative_memory"];
  EXPECT_LT(memory["accumulation"], memory["batch_4"]);
  EXPECT_LT(memory["exact"], memory["checkpointing"]);
  EXPECT_LT(memory["exact_bf16_adafactor"], memory["exact_bf16"]);
  for (const std::string name :
       {"8bit", "fp16_checkpointing_8bit", "bf16_checkpointing_8bit", "exact_bf16_8bit"})
    EXPECT_LT(memory[name + "_embeddings"], memory[name]) << name;
}

// The flags that the ladder shows do the same when they are typed.
TEST_F(CliBench, FlagsOfARungStandAsTheyAre) {
  const json ladder = run_json(this->ladder({"--rungs", "exact_bf16", "--json"}));
  const json& rung = ladder["rungs"][0];
  std::vector<std::string> words = {"plan", "--json", "--model", model(), "--sequence_length", "32"};
  for (const json& flag : rung["flags"]) words.push_back(flag);
  const ProgramRun planned = run(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_NEAR(megabytes(parse_json(planned.output, "output")["process_peak_bytes"]),
              megabytes(rung["plan"]["peak_bytes"]), 2.0);
  std::vector<std::string> train = train_words();
  for (const json& flag : rung["flags"]) train.push_back(flag);
  EXPECT_EQ(run(train).exit_code, 0);
}

TEST_F(CliBench, WhatDoesNotFitIsShown) {
  const std::vector<std::string> quick = {"bench",   "ladder", "--quick",   "--rungs", "batch_4,accumulation",
                                          "--steps", "2",      "--repeats", "1",       "--json"};
  const json free = run_json(quick);
  const int64_t larger = free["rungs"][0]["plan"]["peak_bytes"];
  const int64_t smaller = free["rungs"][1]["plan"]["peak_bytes"];
  std::vector<std::string> tight = quick;
  tight.insert(tight.end(), {"--memory_budget", std::to_string((larger + smaller) / 2)});
  const json shown = run_json(tight);
  EXPECT_EQ(shown["rungs"][0]["ours"]["outcome"], "does not fit");
  EXPECT_TRUE(contains(shown["rungs"][0]["ours"]["reason"].get<std::string>(), "planned"));
  EXPECT_EQ(shown["rungs"][1]["ours"]["outcome"], "measured");
  EXPECT_EQ(shown["rungs"][1]["ours"]["relative_memory"], 1.0);

  const ProgramRun none = run(ladder({"--rungs", "batch_4,bf16", "--memory_budget", "1MiB"}));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(contains(none.output, "does not fit"));
}

TEST_F(CliBench, Mistakes) {
  expect_failure({"bench"}, 2, {"[bench]", "batch, ladder, parallel, quality, step"});
  expect_failure({"bench", "lader"}, 2, {"did you mean ladder?"});
  expect_failure({"bench", "ladder", "--rungs", "bf17"}, 2, {"[--rungs]", "did you mean bf16?"});
  expect_failure({"bench", "ladder", "--steps", "1"}, 2, {"[--steps]", "2 or more"});
  expect_failure({"bench", "ladder", "--repeat", "1"}, 2, {"did you mean --repeats?"});
  expect_failure({"bench", "ladder", "--against", "keras"}, 2, {"huggingface"});
  expect_failure({"bench", "ladder", "--python", "p"}, 2, {"--against huggingface"});
  expect_failure({"bench", "ladder", "--against", "huggingface", "--python", path("none")}, 2,
                 {"[--python]", "bench/peers/setup.sh"});
  expect_failure({"bench", "ladder", "--quick", "--json_file", "/proc/none/x.json"}, 2, {"/proc/none"});
  expect_failure({"bench", "ladder", "--repeats", "3", "--max_repeats", "2"}, 2, {"[--max_repeats]"});
  expect_failure({"bench", "ladder", "--median_error", "0"}, 2, {"[--median_error]"});
  expect_failure({"bench", "batch", "--max", "0"}, 2, {"[--max]"});
  expect_failure({"bench", "batch", "--report", "/proc/none/x.html"}, 2, {"/proc/none"});
  expect_failure({"bench", "batch", "--per_device_train_batch_size", "4"}, 2, {"bench batch tries them"});
  expect_failure({"bench", "batch", "--optim", "nonsense"}, 2, {"[--optim]"});
  expect_failure({"bench", "batch", "--model", path("none")}, 2, {"none"});
}

// Steps that are measured are all alike: a batch that grows is refused, and not dropped in silence.
TEST_F(CliBench, NoGrowingBatch) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"bench", "step"}, {"anatomy"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--model", model(), "--sequence_length", "32", "--per_device_train_batch_size",
                               "2", "--gradient_accumulation_steps", "2", "--batch_size_ramp", "0:2,8:4"});
    expect_failure(words, 2, {"[--batch_size_ramp] expected none here, got 0:2,8:4"});
  }
  expect_failure({"bench", "batch", "--model", model(), "--gradient_accumulation_steps", "2",
                  "--batch_size_ramp", "0:8,8:16"},
                 2, {"[--batch_size_ramp] expected none here, got 0:8,8:16"});
}

// Flags of a whole training run that a step has no use for: nothing is evaluated, resumed or kept.
TEST_F(CliBench, StepTakesATrainingCommandLine) {
  const json result = run_json({"bench",
                                "step",
                                "--model",
                                model(),
                                "--sequence_length",
                                "32",
                                "--json",
                                "--no_limits",
                                "--max_steps",
                                "2",
                                "--eval_on_start",
                                "--eval_strategy",
                                "steps",
                                "--save_strategy",
                                "best",
                                "--metric_for_best_model",
                                "loss",
                                "--load_best_model_at_end",
                                "--early_stopping_patience",
                                "2",
                                "--early_stopping_threshold",
                                "0.1",
                                "--resume_from_checkpoint",
                                "true",
                                "--lr_scheduler_type",
                                "reduce_lr_on_plateau"});
  EXPECT_EQ(result["steps"], 2);
}

// With all that the run would do besides, of which the programs know the evaluation.
TEST_F(CliBench, StepOnTextsIsThatOfTheRun) {
  std::vector<std::string> given =
      train_words({"--validation_file", path("validation.csv"), "--per_device_eval_batch_size", "24",
                   "--eval_strategy", "steps", "--eval_steps", "1", "--json"});
  given.erase(given.begin());
  const auto with = [&given](std::vector<std::string> command) {
    command.insert(command.end(), given.begin(), given.end());
    return command;
  };
  const ProgramRun ended = run(with({"bench", "step", "--on_texts", "--no_limits"}));
  ASSERT_EQ(ended.exit_code, 0) << ended.error;
  EXPECT_TRUE(contains(ended.error, "48 training and 24 validation samples"));
  const json step = parse_json(ended.output, "output");
  const json plan = parse_json(run(with({"plan"})).output, "output");
  EXPECT_EQ(step["program"], plan["program"]);
  EXPECT_EQ(step["memory_arena_predicted_bytes"], plan["arena_bytes"]);
  EXPECT_EQ(step["steps"], 4);
  EXPECT_TRUE(contains(step["step"].get<std::string>(), "8 samples of " + path("train.csv").string()));
  EXPECT_TRUE(written().empty()) << "nothing is saved";
  expect_failure({"bench", "step", "--model", model(), "--on_texts"}, 2,
                 {"[--on_texts] expected --train_file with it, got none"});
  expect_failure(with({"bench", "step", "--on_texts", "--gradient_accumulation_steps", "2",
                       "--batch_size_ramp", "0:8,8:16"}),
                 2, {"[--batch_size_ramp] expected none here"});
}

TEST_F(CliBench, StepIsRepeatedUntilItsMedianIsKnown) {
  const json result =
      run_json({"bench", "step", "--model", model(), "--sequence_length", "32", "--json", "--no_limits"});
  const size_t samples = result["step_samples"].size();
  EXPECT_EQ(result["steps"], samples + 1);
  EXPECT_GE(samples, 5U);
  EXPECT_LE(samples, 39U);
  EXPECT_GT(result["load"]["cpu_share"].get<double>(), 0);
  EXPECT_GE(result["load"]["involuntary_switches"].get<int64_t>(), 0);
}

// The program itself bounds the spin of waiting threads, and takes as many threads as it is told.
TEST_F(CliBench, StepSaysItsThreads) {
  const std::vector<std::string> step = {"bench", "step",   "--model",     model(),       "--sequence_length",
                                         "32",    "--json", "--no_limits", "--max_steps", "2"};
  std::vector<std::string> three = step;
  three.insert(three.end(), {"--num_threads", "3"});
  const json result = run_json(three);
  EXPECT_EQ(result["threads"], 3);
  EXPECT_TRUE(contains(result["threads_text"].get<std::string>(), "3 threads of "));
  EXPECT_TRUE(contains(result["threads_text"].get<std::string>(), "(--num_threads)"));
  const bool is_users = std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
  if (!is_users) {
    EXPECT_TRUE(contains(result["thread_waits"].get<std::string>(), "GOMP_SPINCOUNT="));
  }
  std::vector<std::string> none = step;
  none.insert(none.end(), {"--num_threads", "0"});
  expect_failure(none, 2, {"[num_threads]"});
  const json plan = run_json({"plan", "--model", model(), "--num_threads", "3", "--json"});
  EXPECT_EQ(plan["threads"], 3);
}

TEST_F(CliBench, Batch) {
  const std::vector<std::string> words = {"bench",     "batch",   "--model", model(), "--sequence_length",
                                          "64",        "--steps", "3",       "--max", "16",
                                          "--repeats", "2",       "--bf16"};
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const json result = run_json(as_json);
  ASSERT_EQ(result["sizes"].size(), 5U);
  double most = 0;
  int64_t best = 0;
  for (const json& size : result["sizes"]) {
    EXPECT_EQ(size["outcome"], "measured");
    EXPECT_EQ(size["tokens"], 64 * size["batch_size"].get<int64_t>());
    EXPECT_EQ(size["is_preferred"],
              size["tokens"].get<int64_t>() % result["preferred"]["tokens_multiple"].get<int64_t>() == 0);
    if (size["samples_per_second"].get<double>() <= most) continue;
    most = size["samples_per_second"];
    best = size["batch_size"];
  }
  // The best is named only where no other size is like it.
  if (result["not_told_apart"].empty()) {
    EXPECT_EQ(result["best_batch_size"], best);
  } else {
    EXPECT_TRUE(result["best_batch_size"].is_null());
  }
  EXPECT_EQ(result["sizes"][0]["step_samples"].size(), 4U) << "two of each process";
  EXPECT_EQ(result["sizes"][0]["load"].size(), 2U);
  EXPECT_EQ(result["flags"], (json{"--sequence_length", "64", "--bf16"}));
  // The test's model has a hidden size of 32 and 2 heads; 16 is no multiple of what AVX-512 BF16 likes.
  std::map<std::string, json> checked;
  for (const json& size : result["checked_sizes"]) checked[size["name"]] = size;
  EXPECT_EQ(checked["hidden"]["size"], 32);
  EXPECT_EQ(checked["head"]["size"], 16);
  EXPECT_EQ(checked["16 x 64 tokens"]["is_multiple"], true);
  for (const json& row : result["hardware_multiples"]) {
    if (row["is_this_run"] != true) continue;
    EXPECT_EQ(row["dtype"], "bf16");
    EXPECT_EQ(checked["head"]["is_multiple"], 16 % row["multiple"].get<int64_t>() == 0);
  }

  std::vector<std::string> with_page = words;
  with_page.insert(with_page.end(), {"--report", path("batch.html")});
  const ProgramRun table = run(with_page);
  EXPECT_EQ(table.exit_code, 0) << table.error;
  EXPECT_TRUE(contains(table.output, "best: --per_device_train_batch_size") ||
              contains(table.output, "best: not known"));
  EXPECT_TRUE(contains(table.output, "Tensor Cores of an A100"));
  const std::string page = read_text_file(path("batch.html"));
  EXPECT_TRUE(contains(page, "<svg"));
  EXPECT_TRUE(contains(page, "Multiples that products like"));

  // A budget for the first size ends the list behind it. (Planning the largest may take more than running it does.)
  const int64_t first = result["sizes"][0]["planned_bytes"];
  as_json.insert(as_json.end(),
                 {"--max", "256", "--memory_budget", std::to_string(first + (int64_t{2} << 20))});
  const json tight = run_json(as_json);
  EXPECT_LT(tight["sizes"].size(), 9U);
  EXPECT_EQ(tight["sizes"].back()["outcome"], "does not fit");
}

// The Hugging Face Trainer on rungs that it does otherwise: fp16, and techniques that it has not.
TEST_F(CliBench, LadderAgainstHuggingFace) {
  const char* python = std::getenv("SHOEHORN_PEERS_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "no $SHOEHORN_PEERS_PYTHON";
  if (kIsSanitized) GTEST_SKIP() << "the peer is not sanitized";
  const json result =
      run_json(ladder({"--against", "huggingface", "--rungs", "fp16,8bit_embeddings,exact_bf16", "--json"}));
  const json& fp16 = result["rungs"][0]["theirs"];
  EXPECT_EQ(fp16["outcome"], "measured") << fp16;
  EXPECT_EQ(fp16["ran"], "fp32: fp16 is skipped on this device");
  const json& embeddings = result["rungs"][1]["theirs"];
  EXPECT_EQ(embeddings["outcome"], "measured") << embeddings;
  EXPECT_EQ(embeddings["left_out"], (json{"--optim_args", "embedding_bits=8"}));
  const json& exact = result["rungs"][2];
  EXPECT_EQ(exact["theirs"]["outcome"], "measured") << exact;
  EXPECT_EQ(exact["theirs"]["left_out"].size(), 3U);
  EXPECT_FALSE(exact["theirs"].contains("ran"));
  EXPECT_GT(exact["ratio"]["samples_per_second"].get<double>(), 0);
  EXPECT_LT(exact["ratio"]["memory"].get<double>(), 1);
  const json& memory = exact["theirs"]["memory"];
  EXPECT_LT(memory["process_bytes"], memory["training_bytes"]);
}

}  // namespace
}  // namespace shoehorn
