// `fit` and `train --fit`: what is found is what runs.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace testing;
using nlohmann::json;

class CliFit : public CliTest {
 protected:
  // fit or train of two steps; later flags override these.
  std::vector<std::string> words(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {command,
                                      "--model_name_or_path",
                                      model().string(),
                                      "--train_file",
                                      path("train.csv").string(),
                                      "--output_dir",
                                      output().string(),
                                      "--max_steps",
                                      "2",
                                      "--logging_steps",
                                      "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  json fit(const std::vector<std::string>& more) const {
    std::vector<std::string> all = words("fit", more);
    all.emplace_back("--json");
    const ProgramRun result = run(all);
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 2) << result.error;
    return json::parse(result.output);
  }

  int64_t planned_peak(const std::vector<std::string>& flags) const {
    std::vector<std::string> all = {"plan"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.emplace_back("--json");
    const ProgramRun result = run(all);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(result.output)["process_peak_bytes"].get<int64_t>();
  }
};

TEST_F(CliFit, TheFlagsTakeWhatIsSaid) {
  const json found = fit({"--effective_batch_size", "16", "--allow", "numerics"});
  const json& chosen = found["chosen"];
  const int64_t peak = chosen["process_peak_bytes"].get<int64_t>();
  EXPECT_LE(peak, found["budget_bytes"].get<int64_t>());
  const auto flags = chosen["flags"].get<std::vector<std::string>>();
  if (measures_memory()) {
    EXPECT_NEAR(static_cast<double>(planned_peak(flags)), static_cast<double>(peak), 1 << 20);
  }
  std::vector<std::string> train = {"train"};
  train.insert(train.end(), flags.begin(), flags.end());
  const ProgramRun trained = run(train);
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
  expect_peak_below(trained, peak + (peak / 50) + (int64_t{8} << 20));
  for (const char* key : {"frontier", "binding", "least_budget_bytes", "techniques"})
    EXPECT_FALSE(found[key].empty()) << key;
  EXPECT_FALSE(found["binding"]["residents"].empty());
}

TEST_F(CliFit, BelowTheLeastBudgetNothingFitsAndAtItSomethingDoes) {
  const ProgramRun refused = run(words("fit", {"--memory_budget", "1MiB"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.error, "Least budget that each tier of changes reaches")) << refused.error;
  EXPECT_TRUE(contains(refused.error, "What binds")) << refused.error;
  const json found = fit({"--memory_budget", "1MiB"});
  EXPECT_TRUE(found["chosen"].is_null());
  // A page or two of the process differ from one run to the next.
  const int64_t least = found["least_budget_bytes"]["rounding"].get<int64_t>() + (1 << 20);
  EXPECT_FALSE(fit({"--memory_budget", std::to_string(least)})["chosen"].is_null());
}

TEST_F(CliFit, WhatTheUserGaveStays) {
  const json found = fit({"--per_device_train_batch_size", "4", "--max_grad_norm", "0.5", "--optim",
                          "adamw_torch", "--allow", "numerics", "--fix", "precision"});
  for (const json& plan : found["frontier"]) {
    for (const char* flag : {"--per_device_train_batch_size", "--update_in_backward", "--optim", "--bf16"}) {
      for (const json& word : plan["added_flags"]) EXPECT_NE(word, flag);
    }
  }
  expect_failure(words("fit", {"--effective_batch_size", "16", "--per_device_train_batch_size", "4"}), 2,
                 {"--effective_batch_size", "--per_device_train_batch_size"});
  expect_failure(words("fit", {"--forbid", "recompute", "--gradient_checkpointing"}), 2,
                 {"--forbid recompute"});
  expect_failure(words("fit", {"--fix", "speed"}), 2, {"--fix", "batch, order, recompute"});
}

TEST_F(CliFit, TrainWithFitEqualsItsFlags) {
  const std::vector<std::string> how = {"--effective_batch_size", "16", "--verify", "0"};
  const auto flags = fit(how)["chosen"]["flags"].get<std::vector<std::string>>();
  std::vector<std::string> train = {"train"};
  train.insert(train.end(), flags.begin(), flags.end());
  ASSERT_EQ(run(train).exit_code, 0);
  const std::string weights = read_text_file(output() / "model.safetensors");
  std::filesystem::remove_all(output());
  std::vector<std::string> fitted = words("train", how);
  fitted.emplace_back("--fit");
  const ProgramRun trained = run(fitted);
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "What binds")) << trained.output;
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == weights);
}

}  // namespace
}  // namespace shoehorn
