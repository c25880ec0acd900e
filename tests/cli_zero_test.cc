// Ranks of MPI that share optimizer states, gradients and weights: `shoehorn launch … train --zero_stage N`. Skipped where there
// is no MPI.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "beside_program.h"
#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliZero : public CliTest {
 protected:
  ~CliZero() override { unsetenv("XDG_CACHE_HOME"); }  // which a test may set

  std::vector<std::string> words_at_stage(const std::string& stage, const fs::path& output) const {
    std::vector<std::string> words = train_words(
        {"--validation_file", path("validation.csv").string(), "--max_steps", "6", "--save_steps", "3"});
    words.insert(words.end(), {"--zero_stage", stage, "--zero_persistence_threshold", "100", "--output_dir",
                               output.string()});
    return words;
  }
};

double result(const fs::path& directory, const char* file, const char* name) {
  return read_json(directory / file).at(name).get<double>();
}

// What ranks saved together is the model that one rank saves of the same run, to the byte; its checkpoints are whole, and one
// process goes on from them.
TEST_F(CliZero, SavesWhatARankWithEverythingSaves) {
  if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  for (const std::string stage : {"0", "1", "3"}) {
    std::vector<std::string> words = {"launch", "--nproc_per_node", "2"};
    const std::vector<std::string> train = words_at_stage(stage, path(stage));
    words.insert(words.end(), train.begin(), train.end());
    const ProgramRun run = this->run(words);
    ASSERT_EQ(run.exit_code, 0) << run.output << run.error;
    EXPECT_TRUE(read_text_file(path(stage) / "model.safetensors") ==
                read_text_file(path("0") / "model.safetensors"))
        << stage;
    EXPECT_EQ(result(path(stage), "eval_results.json", "eval_loss"),
              result(path("0"), "eval_results.json", "eval_loss"));
    EXPECT_EQ(result(path(stage), "train_results.json", "memory_arena_predicted_bytes"),
              result(path(stage), "train_results.json", "memory_arena_measured_bytes"));
    EXPECT_EQ(checkpoint_defect(path(stage) / "checkpoint-6", VerifiedFiles::kAll), "");
  }
  EXPECT_TRUE(fs::exists(path("3") / "checkpoint-3" / "model-rank-00001-of-00002.safetensors"));
  std::vector<std::string> words = words_at_stage("3", path("3"));
  words.insert(words.end(), {"--gradient_accumulation_steps", "2", "--resume_from_checkpoint",
                             (path("3") / "checkpoint-3").string()});
  const ProgramRun resumed = run(words);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(contains(resumed.output, "--world_size 2 → 1")) << resumed.output;
}

// BERT-large on eight ranks of stage 3 with a batch each: a process of them takes at most a fifth of one that has all eight batches at
// once. Nothing runs.
TEST_F(CliZero, ARankOfEightHoldsAFifth) {
  const auto planned_peak = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "plan",   "--model_name_or_path", "bert-large", "--max_seq_length", "128", "--num_threads", "1",
        "--json", "--memory_budget",      "64GiB"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run = this->run(words);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return nlohmann::json::parse(run.output).at("process_peak_bytes").get<double>();
  };
  for (const std::string bf16 : {"false", "true"}) {
    const double one = planned_peak({"--bf16", bf16, "--per_device_train_batch_size", "8"});
    const double rank = planned_peak(
        {"--bf16", bf16, "--per_device_train_batch_size", "1", "--world_size", "8", "--zero_stage", "3"});
    EXPECT_LE(5 * rank, one) << "bf16 " << bf16;
  }
}

// hybrid_shard shares within the host: the two ranks of this one are all, so that the result is that of stage 3.
TEST_F(CliZero, SharesWithinAHost) {
  if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {"stage", {"--zero_stage", "3"}}, {"hybrid", {"--fsdp", "hybrid_shard"}}};
  for (const auto& [name, method] : runs) {
    std::vector<std::string> words = {"launch", "--nproc_per_node", "2"};
    const std::vector<std::string> train =
        train_words({"--max_steps", "3", "--zero_persistence_threshold", "100", "--save_strategy", "no"});
    words.insert(words.end(), train.begin(), train.end());
    words.insert(words.end(), method.begin(), method.end());
    words.insert(words.end(), {"--output_dir", path(name).string()});
    const ProgramRun run = this->run(words);
    ASSERT_EQ(run.exit_code, 0) << run.output << run.error;
  }
  EXPECT_TRUE(read_text_file(path("hybrid") / "model.safetensors") ==
              read_text_file(path("stage") / "model.safetensors"));
  const ProgramRun planned =
      run({"plan", "--model", "bert-large", "--world_size", "8", "--fsdp", "hybrid_shard"});
  EXPECT_EQ(planned.exit_code, 2);
  EXPECT_TRUE(contains(planned.error, "[--zero_group_size 0] expected a number where no ranks run"))
      << planned.error;
}

// A rank of 1024 in groups of 8, which are hosts, is planned, and compared with those that all share.
TEST_F(CliZero, PlansGroups) {
  const ProgramRun planned = run({"plan", "--model", "bert-mini", "--world_size", "1024", "--zero_stage", "3",
                                  "--zero_group_size", "0", "--ranks_per_host", "8", "--explain"});
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  for (const char* text : {"zero_stage 3, groups of 8", "all_reduce_across_groups", "between hosts"})
    EXPECT_TRUE(contains(planned.output, text)) << planned.output;
}

// One layer ahead, unless that does not fit; and small weights stay whole, unless that does not, either.
TEST_F(CliZero, PlansHowWeightsAreGathered) {
  const auto plan = [&](const std::vector<std::string>& more, int code = 0) {
    std::vector<std::string> words = {"plan", "--model",      "bert-base", "--world_size",
                                      "8",    "--zero_stage", "3",         "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun planned = run(words);
    EXPECT_EQ(planned.exit_code, code) << planned.error;
    return nlohmann::json::parse(planned.output);
  };
  const auto bytes = [](const nlohmann::json& planned) {
    return planned.at("process_peak_bytes").get<int64_t>();
  };
  const nlohmann::json open = plan({});
  const nlohmann::json none = plan({"--zero_prefetch_layers", "0"});
  EXPECT_EQ(open.at("zero_prefetch_layers"), 1);
  EXPECT_EQ(open.at("zero_persistence_threshold"), 100'000);
  EXPECT_EQ(none.at("zero_prefetch_layers"), 0);
  ASSERT_GT(bytes(open), bytes(none) + (int64_t{8} << 20));
  const nlohmann::json tight = plan({"--memory_budget", std::to_string((bytes(open) + bytes(none)) / 2)});
  EXPECT_EQ(tight.at("zero_prefetch_layers"), 0);
  EXPECT_EQ(tight.at("zero_persistence_threshold"), 100'000);
  EXPECT_LT(bytes(tight), bytes(open));
  const nlohmann::json least = plan({"--memory_budget", "100MiB"}, 2);
  EXPECT_EQ(least.at("zero_persistence_threshold"), 0);
  const nlohmann::json given = plan({"--memory_budget", "100MiB", "--zero_persistence_threshold", "7"}, 2);
  EXPECT_EQ(given.at("zero_persistence_threshold"), 7);
}

// A rank finds the calibration for its threads, though it is bound to some of the processors, and knows the link that its launch
// makes: it gathers as the plan says, which over a slow link is otherwise than where nobody knows the times.
TEST_F(CliZero, RanksGatherAsThePlanSays) {
  if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  ASSERT_EQ(run({"calibrate", "--quick", "--num_threads", "1"}).exit_code, 0);
  write_text_atomic(path("texts.txt"), "the cat sat on the mat and the dog on the cat\n");
  ASSERT_EQ(run({"tokenizer", "train", "--output_dir", path("tokenizer").string(), "--vocab_size", "270",
                 path("texts.txt").string()})
                .exit_code,
            0);
  const std::vector<std::string> settings = {
      "--task",
      "causal-lm",
      "--model_type",
      "gpt2",
      "--tokenizer_name",
      path("tokenizer").string(),
      "--train_file",
      path("texts.txt").string(),
      "--block_size",
      "16",
      "--max_steps",
      "1",
      "--zero_stage",
      "3",
      "--num_threads",
      "1",
      "--save_strategy",
      "no",
      "--output_dir",
      output().string(),
      "--config_overrides",
      "n_layer=4,n_head=2,n_embd=256,n_positions=32,vocab_size=270,bos_token_id=0,eos_token_id=0"};
  const std::vector<std::string> link = {"--link_bandwidth", "0.5", "--link_latency", "100"};
  const auto planned = [&](const std::vector<std::string>& more) {
    const ProgramRun planned =
        run(joined(joined({"plan", "--json", "--world_size", "2", "--ranks_per_host", "2"}, settings), more));
    EXPECT_EQ(planned.exit_code, 0) << planned.error;
    return nlohmann::json::parse(planned.output);
  };
  const nlohmann::json slow = planned(link);
  EXPECT_EQ(slow.at("zero_persistence_threshold"), 1'000'000);
  const ProgramRun trained =
      run(joined(joined(joined({"launch", "--nproc_per_node", "2"}, link), {"train"}), settings));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const double arena = result(output(), "train_results.json", "memory_arena_predicted_bytes");
  EXPECT_EQ(arena, slow.at("arena_bytes").get<double>());
  setenv("XDG_CACHE_HOME", path("empty_cache").c_str(), 1);
  EXPECT_NE(arena, planned({}).at("arena_bytes").get<double>());
}

// What fit finds says how weights are gathered, so that train makes no other plan of it.
TEST_F(CliZero, FitSaysHowWeightsAreGathered) {
  const std::vector<std::string> ranks = {"--model", "bert-base", "--world_size", "8", "--zero_stage", "3"};
  const auto result_of = [&](const char* command, const std::vector<std::string>& more) {
    std::vector<std::string> words = {command};
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("--json");
    const ProgramRun found = run(words);
    EXPECT_EQ(found.exit_code, 0) << found.error;
    return nlohmann::json::parse(found.output);
  };
  const auto bytes_of = [&](const std::string& layers) {
    std::vector<std::string> words = ranks;
    words.insert(words.end(), {"--zero_prefetch_layers", layers});
    return result_of("plan", words).at("process_peak_bytes").get<int64_t>();
  };
  const std::string budget = std::to_string((bytes_of("1") + bytes_of("0")) / 2);
  std::vector<std::string> words = ranks;
  words.insert(words.end(),
               {"--memory_budget", budget, "--fix",
                "batch,order,recompute,update_in_backward,precision,masters,optimizer,adapters,evaluation"});
  const nlohmann::json chosen = result_of("fit", words).at("chosen");
  const auto added = chosen.at("added_flags").get<std::vector<std::string>>();
  const auto layers = std::ranges::find(added, "--zero_prefetch_layers");
  ASSERT_NE(layers, added.end());
  EXPECT_EQ(*(layers + 1), "0");
  auto flags = chosen.at("flags").get<std::vector<std::string>>();
  flags.insert(flags.end(), {"--memory_budget", budget});
  EXPECT_NEAR(result_of("plan", flags).at("process_peak_bytes").get<double>(),
              chosen.at("process_peak_bytes").get<double>(), 1 << 20);
}

// A plan of a rank needs no ranks, and each stage holds less.
TEST_F(CliZero, PlansARankOfMany) {
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const char* stage : {"0", "1", "2", "3"}) {
    const ProgramRun planned =
        run({"plan", "--model", "bert-large", "--sequence_length", "128", "--world_size", "8",
             "--ranks_per_host", "1", "--gradient_accumulation_steps", "2", "--zero_stage", stage, "--json"});
    ASSERT_EQ(planned.exit_code, 0) << planned.error;
    const auto json = nlohmann::json::parse(planned.output);
    EXPECT_LT(json.at("arena_bytes").get<int64_t>(), before) << stage;
    before = json.at("arena_bytes").get<int64_t>();
  }
}

// Where no layer is gathered ahead, a weight's gradient is complete before its gather for the backward has ended.
TEST_F(CliZero, UpdatesInTheBackwardArePlannedWithoutGathersAhead) {
  const ProgramRun planned =
      run({"plan", "--model", "bert-mini", "--world_size", "2", "--zero_stage", "3", "--zero_prefetch_layers",
           "0", "--zero_persistence_threshold", "0", "--gradient_accumulation_steps", "2",
           "--accumulation_order", "layer_major", "--update_in_backward", "--max_grad_norm", "0"});
  EXPECT_EQ(planned.exit_code, 0) << planned.error;
}

// A refusal plans what would fit, without gathers ahead too.
TEST_F(CliZero, RefusesRanksThatDoNotFit) {
  expect_failure({"plan", "--model", "bert-base", "--world_size", "64", "--zero_stage", "1",
                  "--memory_budget", "700MiB", "--num_threads", "1"},
                 2, {"[memory] expected a plan of at most 700.00 MiB"});
}

// The words of a plan: a step's average, and a row beside the other ways to share a step.
TEST_F(CliZero, PlansRanksThatTrainAlone) {
  const ProgramRun planned = run({"plan", "--model", "bert-mini", "--world_size", "4", "--local_sgd_steps",
                                  "100", "--outer_momentum", "0.9", "--explain"});
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_TRUE(contains(planned.output, "by each of 4 ranks on average, all of it every 100 steps"))
      << planned.output;
  EXPECT_TRUE(contains(planned.output, "local SGD, 100")) << planned.output;
  EXPECT_EQ(run({"plan", "--model", "bert-mini", "--world_size", "4", "--local_sgd_steps", "100", "--fp16"})
                .exit_code,
            2);
}

}  // namespace
}  // namespace shoehorn
