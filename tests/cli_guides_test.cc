// The guides' shell cells, as commands of this program (docs/guides.md).
#include <nlohmann/json.hpp>

#include "beside_program.h"
#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class CliGuides : public CliTest {
 protected:
  // MRPC's layout: two texts that say the same, or not.
  std::string mrpc_file(const std::string& name, int64_t rows) const {
    std::string csv = "sentence1,sentence2,label\n";
    for (int64_t i = 0; i < rows; ++i)
      csv += i % 2 == 0 ? "stat cest hust,hust cest stat,1\n" : "stat cest hust,chai trou,0\n";
    return directory_.write(name, csv).string();
  }

  // The run_glue cell for one process, with its data as files and an epoch in place of three.
  std::vector<std::string> run_glue(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"train",
                                      "--model_name_or_path",
                                      model().string(),
                                      "--task_name",
                                      "mrpc",
                                      "--train_file",
                                      mrpc_file("mrpc_train.csv", 32),
                                      "--validation_file",
                                      mrpc_file("mrpc_dev.csv", 12),
                                      "--do_train",
                                      "--do_eval",
                                      "--max_seq_length",
                                      "128",
                                      "--per_device_train_batch_size",
                                      "16",
                                      "--learning_rate",
                                      "2e-5",
                                      "--num_train_epochs",
                                      "1.0",
                                      "--output_dir",
                                      output().string(),
                                      "--overwrite_output_dir"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(CliGuides, RunGlue) {
  const ProgramRun result = run(run_glue());
  ASSERT_EQ(result.exit_code, 0) << result.error;
  for (const char* part : {"train_samples_per_second", "eval_accuracy", "eval_f1"})
    EXPECT_TRUE(contains(result.output, part));
  EXPECT_TRUE(std::filesystem::exists(output() / "model.safetensors"));
}

// The run_clm cell, on one process and on two: with its data as files, a new model of GPT-2's architecture, and fewer steps.
TEST_F(CliGuides, RunClm) {
  std::string rows;
  for (int i = 0; i < 60; ++i)
    rows += i % 4 == 0 ? "{\"text\": \"\"}\n" : "{\"text\": \"a dog ran to the park, and back \"}\n";
  const std::string file = directory_.write("train.jsonl", rows).string();
  const std::string tokenizer = path("tokenizer").string();
  ASSERT_EQ(run({"tokenizer", "train", "--output_dir", tokenizer, "--vocab_size", "280", file}).exit_code, 0);
  const std::vector<std::string> cell = {"train",
                                         "--model_type",
                                         "gpt2",
                                         "--config_overrides",
                                         "n_layer=1,n_head=2,n_embd=16,n_positions=32,vocab_size=280",
                                         "--tokenizer_name",
                                         tokenizer,
                                         "--dataset_name",
                                         "wikitext",
                                         "--dataset_config_name",
                                         "wikitext-2-raw-v1",
                                         "--do_train",
                                         "--output_dir",
                                         output().string(),
                                         "--per_device_train_batch_size",
                                         "4",
                                         "--max_steps",
                                         "3"};
  expect_failure(cell, 2,
                 {"[--train_file] expected", "wikitext is not downloaded",
                  "load_dataset('wikitext', 'wikitext-2-raw-v1')", "part.to_json"});
  std::vector<std::string> words = cell;
  words.insert(words.end(), {"--train_file", file, "--do_eval"});
  const ProgramRun one = run(words);
  ASSERT_EQ(one.exit_code, 0) << one.error;
  EXPECT_TRUE(contains(one.output, "dataset_name has no effect: nothing is downloaded"));
  EXPECT_TRUE(read_json(output() / "all_results.json").contains("perplexity"));
  if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  for (const char* mode : {"ddp", "dp"}) {
    std::vector<std::string> two = {"launch", "--nproc_per_node", "2"};
    two.insert(two.end(), words.begin(), words.end());
    two.insert(two.end(), {"--parallel_mode", mode, "--overwrite_output_dir"});
    const ProgramRun result = run(two);
    EXPECT_EQ(result.exit_code, 0) << mode << "\n" << result.error;
  }
}

// Flags that the guides name in their text, each beside the same command.
TEST_F(CliGuides, FlagsOfTheText) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--gradient_accumulation_steps", "4", "--gradient_checkpointing"},
           {"--fp16"},
           {"--bf16", "--bf16_full_eval"},
           {"--tf32", "0", "--optim", "adamw_apex_fused"},
           {"--no_tf32", "--optim", "adafactor", "--precision", "bf16-mixed"}}) {
    const ProgramRun result = run(run_glue(flags));
    EXPECT_EQ(result.exit_code, 0) << flags[0] << "\n" << result.error;
  }
  expect_failure(run_glue({"--tf32"}), 2, {"tf32", "NVIDIA"});
  expect_failure(run_glue({"--deepspeed", "/path/to/ds_config.json"}), 2,
                 {"[/path/to/ds_config.json] expected"});
  directory_.write("ds_config.json",
                   R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})");
  expect_failure(
      run_glue({"--deepspeed", path("ds_config.json").string()}), 2,
      {"zero_optimization.offload_optimizer.device] expected \"none\"", "not in this version yet"});
  directory_.write("ds_config.json",
                   R"({"bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto",
                                        "zero_optimization": {"stage": 2, "overlap_comm": true}})");
  const ProgramRun result = run(run_glue({"--deepspeed", path("ds_config.json").string(), "--bf16"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.output, "ds_config.json: no effect here have zero_optimization.overlap_comm"));
}

// python run_translation.py -h | grep "\-optim"
TEST_F(CliGuides, HelpListsTheOptimizers) {
  const ProgramRun help = run({"train", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  const size_t line = help.output.find("--optim ");
  ASSERT_NE(line, std::string::npos);
  for (const char* name : {"adamw_torch", "adamw_apex_fused", "adafactor"})
    EXPECT_NE(help.output.find(name, line), std::string::npos) << name;
}

// nvidia-smi, and whether bf16 is supported.
TEST_F(CliGuides, WhatTheMachineIs) {
  const ProgramRun env = run({"env", "--json"});
  ASSERT_EQ(env.exit_code, 0) << env.error;
  const nlohmann::json facts = parse_json(env.output, "output");
  EXPECT_TRUE(facts.at("bf16_products").is_boolean());
  EXPECT_GT(facts.at("available_memory_bytes").get<int64_t>(), 0);
  EXPECT_TRUE(facts.at("memory_limit").is_string());
  EXPECT_GT(facts.at("fp32_flops").get<double>(), 0);
  const nlohmann::json& peaks = facts.at("arithmetic_peaks");
  ASSERT_EQ(peaks.size(), 4U);
  for (const nlohmann::json& peak : peaks) {
    EXPECT_EQ(peak.contains("flops_one_thread"), peak.at("measured").get<bool>()) << peak;
    EXPECT_EQ(peak.contains("flops_all_threads"), peak.at("measured").get<bool>()) << peak;
  }
  EXPECT_EQ(peaks[0].at("name"), "AVX2 FMA");
  EXPECT_TRUE(peaks[0].at("measured").get<bool>()) << "the least machine has AVX2";
  EXPECT_TRUE(contains(run({"env"}).output, "AVX2 FMA"));
}

// torch.compile(model): what is fused here, what is not computed, and what that saves.
TEST_F(CliGuides, ExplainSaysWhatFusionsSave) {
  std::vector<std::string> words = {"plan",      "--model_name_or_path",          model().string(),
                                    "--explain", "--per_device_train_batch_size", "4"};
  const ProgramRun table = run(words);
  ASSERT_EQ(table.exit_code, 0) << table.error;
  const std::vector<std::string> applied = {"fuse_attention", "fuse_residual_norm", "fuse_bias_activation",
                                            "gather_early"};
  const size_t idle = table.output.find("nothing to do here");
  for (const std::string& name : applied) EXPECT_LT(table.output.find(name), idle) << table.output;

  words.push_back("--json");
  const ProgramRun listed = run(words);
  ASSERT_EQ(listed.exit_code, 0) << listed.error;
  const nlohmann::json passes = parse_json(listed.output, "output").at("passes");
  for (const std::string& name : applied) {
    const nlohmann::json& with = passes.at(name).at("with");
    const nlohmann::json& without = passes.at(name).at("without");
    EXPECT_FALSE(passes.at(name).at("skipped").get<bool>()) << name;
    EXPECT_GT(without.at("bytes").get<double>() - with.at("bytes").get<double>(), 0) << name;
    // A fused attention moves less and computes no less: what that is in time depends on the machine.
    if (name == "fuse_attention") continue;
    EXPECT_GT(without.at("floor_seconds").get<double>() - with.at("floor_seconds").get<double>(), 0) << name;
  }
}

}  // namespace
}  // namespace shoehorn
