// bench parallel as a program, and launch over a slower link. Skipped where there is no MPI.
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "beside_program.h"
#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliParallel : public CliTest {
 protected:
  CliParallel() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~CliParallel() override { unsetenv("XDG_CACHE_HOME"); }
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  }

  std::vector<std::string> bench(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"bench",
                                      "parallel",
                                      "--model_name_or_path",
                                      model(),
                                      "--train_file",
                                      path("train.csv"),
                                      "--max_steps",
                                      "3",
                                      "--per_device_train_batch_size",
                                      "2",
                                      "--num_threads",
                                      "1",
                                      "--max_seq_length",
                                      "16"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // By mode, and whether it is over a slow link; each of one run.
  static std::map<std::string, json> settings_of(const std::filesystem::path& file) {
    std::map<std::string, json> settings;
    const json parallel = read_json(file);
    for (const json& setting : parallel["settings"]) {
      EXPECT_EQ(setting["runs"].size(), 1U);
      EXPECT_EQ(setting["runs"][0]["outcome"], "measured") << setting;
      settings[setting["mode"].get<std::string>() + (setting["link"].is_null() ? "" : " slow")] = setting;
    }
    return settings;
  }
};

TEST_F(CliParallel, RunsEverySettingOverEveryLink) {
  ASSERT_EQ(run({"calibrate", "--quick", "--num_threads", "1"}).exit_code, 0);
  const ProgramRun result = run(bench({"--repeats", "1", "--modes", "dp,ddp", "--link_bandwidths", "0.01",
                                       "--link_latency", "50", "--json_file", path("parallel.json")}));
  ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
  EXPECT_TRUE(contains(result.output, "0.01 Gbit/s, 50 µs")) << result.output;
  std::map<std::string, json> settings = settings_of(path("parallel.json"));
  ASSERT_EQ(settings.size(), 5U) << "one process; dp and ddp over two links";
  const auto run_of = [&](const std::string& name) { return settings[name]["runs"][0]; };
  EXPECT_EQ(run_of("one process")["sent_bytes_in_step"], 0);
  EXPECT_GT(run_of("dp")["sent_bytes_in_step"], run_of("ddp")["sent_bytes_in_step"])
      << "samples go around, too";
  // Two ranks have one sum either way, whatever the link.
  for (const char* other : {"dp", "dp slow", "ddp slow"})
    EXPECT_EQ(run_of(other)["train_loss"], run_of("ddp")["train_loss"]) << other;
  for (const char* mode : {"dp", "ddp"}) {
    const json slow = run_of(std::string(mode) + " slow");
    const double sending = slow["sent_bytes_in_step"].get<double>() / (0.01e9 / 8);
    EXPECT_GE(slow["train_seconds"].get<double>(), 3 * sending) << "a message takes its time";
    EXPECT_GE(slow["step_seconds"].get<double>(), sending);
    // Operations of a thread are calibrated, and the link is given; what this host's memory does nobody measured.
    EXPECT_GE(settings[std::string(mode) + " slow"]["predicted_step_seconds"].get<double>(), sending) << mode;
    const double hidden = settings[std::string(mode) + " slow"]["predicted_hidden_share"].get<double>();
    EXPECT_TRUE(hidden >= 0 && hidden <= 1) << mode << ": " << hidden;
    EXPECT_TRUE(settings[mode]["predicted_step_seconds"].is_null()) << mode;
    EXPECT_FALSE(settings[mode].contains("predicted_hidden_share")) << mode;
  }
  EXPECT_TRUE(run_of("ddp")["messages_early_share"].is_number()) << "gradients go around beside the backward";
  EXPECT_FALSE(run_of("dp").contains("messages_early_share")) << "nothing does";
  const double alone = settings["one process"]["samples_per_second"]["median"].get<double>();
  EXPECT_DOUBLE_EQ(settings["ddp"]["times_one_process"].get<double>(),
                   settings["ddp"]["samples_per_second"]["median"].get<double>() / alone);
}

// Stages have the bits of ddp, and ranks accumulate; DataParallel does not.
TEST_F(CliParallel, RunsEveryStageOfRanksThatAccumulate) {
  const ProgramRun result = run(bench({"--repeats", "1", "--gradient_accumulation_steps", "2",
                                       "--link_bandwidths", "none", "--json_file", path("parallel.json")}));
  ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
  const std::string left_out =
      "dp is left out: DataParallel takes one micro-batch of a rank in a step, and "
      "--gradient_accumulation_steps is 2";
  EXPECT_TRUE(contains(result.output, left_out)) << result.output;
  const json parallel = read_json(path("parallel.json"));
  EXPECT_EQ(parallel["left_out"], left_out);
  EXPECT_EQ(parallel["gradient_accumulation_steps"], 2);
  std::map<std::string, json> settings = settings_of(path("parallel.json"));
  ASSERT_EQ(settings.size(), 5U) << "one process, ddp and three stages";
  for (const char* mode : {"zero_1", "zero_2", "zero_3"}) {
    EXPECT_EQ(settings[mode]["runs"][0]["train_loss"], settings["ddp"]["runs"][0]["train_loss"]) << mode;
    EXPECT_GT(settings[mode]["runs"][0]["sent_bytes_in_step"], 0) << mode;
  }
}

TEST_F(CliParallel, Mistakes) {
  expect_failure(bench({"--parallel_mode", "dp"}), 2, {"[--parallel_mode]", "bench parallel sets it"});
  expect_failure(bench({"--zero_stage", "3"}), 2, {"[--zero_stage]", "bench parallel sets it"});
  expect_failure(bench({"--modes", "zero"}), 2, {"[--modes]", "zero_3", "'zero'"});
  expect_failure(bench({"--modes", "dp,ddp", "--gradient_accumulation_steps", "2"}), 2,
                 {"[--modes]", "dp is left out"});
  expect_failure(bench({"--nproc_per_node", "1"}), 2, {"[--nproc_per_node]", "nobody to share with"});
  for (const std::string value : {"fast", "inf", "nan", "1e999", "1e305", "+1", "0"})
    expect_failure(bench({"--link_bandwidths", value}), 2, {"[--link_bandwidths]", "'" + value + "'"});
  expect_failure(bench({"--link_latency", "-1"}), 2, {"[--link_latency]", "-1"});
  for (const std::string value : {"0", "1e305"}) {
    expect_failure({"launch", "--nproc_per_node", "2", "--link_bandwidth", value, "train"}, 2,
                   {"[--link_bandwidth]"});
  }
  expect_failure({"launch", "--nproc_per_node", "2", "--link_bandwidth", "1", "--hostfile", "hosts", "topo"},
                 2, {"[--link_bandwidth]", "--hostfile"});
}

}  // namespace
}  // namespace shoehorn
