// Files that are mixed by weight, from shards: a run that is killed goes on with the same bits, the shares are logged, and
// what is damaged or changed is refused.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

class CliMixture : public CliTest {
 protected:
  static constexpr int64_t kSteps = 12;
  static constexpr int64_t kSamples = kSteps * 2 * 2;

  CliMixture() {
    std::string few;
    std::string many;
    for (int i = 0; i < 12; ++i) few += "the baker counts seven loaves.\n";
    for (int i = 0; i < 90; ++i)
      many += fmt::format("{{\"text\": \"the old ferry waits for the tide {}\"}}\n", i);
    few_ = directory_.write("few.txt", few);
    many_ = directory_.write("many.jsonl", many);
  }

  std::vector<std::string> mixed_words(const fs::path& output_dir,
                                       const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "train",
        "--task",
        "causal-lm",
        "--model_type",
        "gpt2",
        "--config_overrides",
        "n_layer=1,n_head=2,n_embd=16,n_positions=32,vocab_size=400,eos_token_id=0",
        "--tokenizer_name",
        golden("language_small").string(),
        "--train_file",
        few_ + "," + many_,
        "--train_file_weights",
        "0.7",
        "0.3",
        "--validation_split_percentage",
        "0",
        "--dataset_cache",
        path("cache").string(),
        "--block_size",
        "16",
        "--max_steps",
        std::to_string(kSteps),
        "--per_device_train_batch_size",
        "2",
        "--gradient_accumulation_steps",
        "2",
        "--learning_rate",
        "1e-2",
        "--logging_steps",
        "1",
        "--save_steps",
        "1",
        "--output_dir",
        output_dir.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Runs the program until it has this checkpoint, and kills it.
  void kill_behind(int64_t step, const std::vector<std::string>& words) const {
    StartedProgram program(words, directory_.path());
    const fs::path checkpoint = output() / fmt::format("checkpoint-{}", step);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!fs::exists(checkpoint) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(program.pid(), SIGKILL);
    program.wait();
    ASSERT_TRUE(fs::exists(checkpoint));
    EXPECT_LT(latest_checkpoint(output()).step, kSteps) << "killed too late";
  }

  void expect_same_end(const fs::path& whole) const {
    const std::string last = fmt::format("checkpoint-{}", kSteps);
    for (const char* name :
         {"model.safetensors", "optimizer.safetensors", "trainer_state.json", "shoehorn_state.json"}) {
      EXPECT_TRUE(read_text_file(output() / last / name) == read_text_file(whole / last / name))
          << name << " differs";
    }
  }

  std::string few_;
  std::string many_;
};

// Twelve steps are several epochs of the mixture, and several passes through the smaller file.
TEST_F(CliMixture, AKilledRunGoesOnWithTheSameBits) {
  const fs::path whole = path("whole");
  const ProgramRun run_whole = run(mixed_words(whole));
  ASSERT_EQ(run_whole.exit_code, 0) << run_whole.error;
  kill_behind(3, mixed_words(output()));
  kill_behind(7, mixed_words(output(), {"--resume_from_checkpoint", "true"}));
  const ProgramRun resumed = run(mixed_words(output(), {"--resume_from_checkpoint", "true"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(contains(resumed.output + resumed.error, "resumed from"));
  expect_same_end(whole);
  const auto key = [&](const std::string& file) { return "train_share_" + file; };
  const nlohmann::json results = read_json(output() / "train_results.json");
  const nlohmann::json expected = read_json(whole / "train_results.json");
  for (const std::string& file : {few_, many_}) EXPECT_EQ(results[key(file)], expected[key(file)]);
  EXPECT_NEAR(results[key(few_)].get<double>(), 0.7, 1.0 / kSamples) << "within one sample of the weights";
  EXPECT_NEAR(results[key(few_)].get<double>() + results[key(many_)].get<double>(), 1, 1e-12);
  EXPECT_TRUE(contains(resumed.output + resumed.error, fmt::format("of {} samples: {} 7", kSamples, few_)));
}

TEST_F(CliMixture, AnotherMixtureIsAnotherRun) {
  ASSERT_EQ(run(mixed_words(output())).exit_code, 0);
  remove_path(output() / fmt::format("checkpoint-{}", kSteps));
  const auto resumed = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--resume_from_checkpoint", "true"});
    return mixed_words(output(), more);
  };
  expect_failure(resumed({"--train_file_weights", "0.5", "0.5"}), 2,
                 {"--train_file_weights", "training data"});
  expect_failure(resumed({"--stopping_strategy", "all_exhausted"}), 2, {"--stopping_strategy"});
  const ProgramRun same = run(resumed({"--overwrite_cache"}));
  EXPECT_EQ(same.exit_code, 0) << same.error;
}

TEST_F(CliMixture, WhatIsDamagedOrWrongIsNamed) {
  ASSERT_EQ(run(mixed_words(output(), {"--max_steps", "1", "--save_strategy", "no"})).exit_code, 0);
  for (const std::string& name : list_directory(path("cache"))) {
    const fs::path shard = path("cache") / name / "shard-00000.tokens";
    flip_bit(shard, 8 * 100);
    expect_failure(mixed_words(path("other")), 2, {"shard-00000.tokens", "--overwrite_cache"});
    flip_bit(shard, 8 * 100);
  }
  for (const auto& [weights, part] :
       {std::pair<std::vector<std::string>, std::string>{{"1", "0"}, "expected numbers above 0, got '0'"},
        {{"1", "-2"}, "expected numbers above 0, got '-2'"},
        {{"1", "2", "3"}, "expected 2 numbers, one for each name in --train_file, got 3: 1, 2, 3"}}) {
    std::vector<std::string> more = {"--train_file_weights"};
    more.insert(more.end(), weights.begin(), weights.end());
    expect_failure(mixed_words(path("other"), more), 2, {"[train_file_weights]", part});
  }
}

}  // namespace
}  // namespace shoehorn
