// bench parallel as a program, and launch over a slower link. Skipped where there is no MPI.
#include <map>
#include <nlohmann/json.hpp>

#include "beside_program.h"
#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;
using nlohmann::json;

class CliParallel : public CliTest {
 protected:
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
};

TEST_F(CliParallel, RunsEverySettingOverEveryLink) {
  const ProgramRun result = run(bench({"--repeats", "1", "--link_bandwidths", "0.01", "--link_latency", "50",
                                       "--json_file", path("parallel.json")}));
  ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
  EXPECT_TRUE(contains(result.output, "0.01 Gbit/s, 50 µs")) << result.output;
  const json parallel = read_json(path("parallel.json"));
  std::map<std::string, json> runs;
  for (const json& setting : parallel["settings"]) {
    ASSERT_EQ(setting["runs"].size(), 1U);
    EXPECT_EQ(setting["runs"][0]["outcome"], "measured") << setting;
    const std::string name = setting["mode"].get<std::string>() + (setting["link"].is_null() ? "" : " slow");
    runs[name] = setting["runs"][0];
  }
  ASSERT_EQ(runs.size(), 5U) << "one process; dp and ddp over two links";
  EXPECT_EQ(runs["one process"]["sent_bytes_in_step"], 0);
  EXPECT_GT(runs["dp"]["sent_bytes_in_step"], runs["ddp"]["sent_bytes_in_step"]) << "samples go around, too";
  // Two ranks have one sum either way, whatever the link.
  for (const char* other : {"dp", "dp slow", "ddp slow"})
    EXPECT_EQ(runs[other]["train_loss"], runs["ddp"]["train_loss"]) << other;
  for (const char* mode : {"dp", "ddp"}) {
    const json& slow = runs[std::string(mode) + " slow"];
    const double sending = 3 * slow["sent_bytes_in_step"].get<double>() / (0.01e9 / 8);
    EXPECT_GE(slow["train_seconds"].get<double>(), sending) << "a message takes its time";
  }
}

TEST_F(CliParallel, Mistakes) {
  expect_failure(bench({"--parallel_mode", "dp"}), 2, {"[--parallel_mode]", "bench parallel sets it"});
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
