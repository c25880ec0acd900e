// The memory of a rank as plan says it without ranks, against what ranks of MPI find when they plan their own. Skipped where
// there is no MPI.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "beside_program.h"
#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliRankMemory : public CliTest {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
    setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  }
  ~CliRankMemory() override { unsetenv("XDG_CACHE_HOME"); }

  // One thread, as a rank has whatever the machine.
  std::vector<std::string> words(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> all = train_words({"--num_threads", "1", "--save_strategy", "no"});
    all[0] = command;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  nlohmann::json planned(int ranks) const {
    const ProgramRun plan = run(words("plan", {"--world_size", std::to_string(ranks), "--json"}));
    EXPECT_EQ(plan.exit_code, 0) << plan.error;
    return nlohmann::json::parse(plan.output);
  }

  // What the first of so many ranks that run says of itself.
  nlohmann::json predicted(int ranks) const {
    std::vector<std::string> all = {"launch", "--nproc_per_node", std::to_string(ranks)};
    const std::vector<std::string> train = words("train", {"--overwrite_output_dir"});
    all.insert(all.end(), train.begin(), train.end());
    const ProgramRun trained = run(all);
    EXPECT_EQ(trained.exit_code, 0) << trained.output << trained.error;
    return read_json(output() / "train_results.json");
  }
};

// Arenas to the byte; the process within a hundredth, or of a small one within 8 MiB.
void expect_as_predicted(const nlohmann::json& plan, const nlohmann::json& results) {
  constexpr double kShare = 0.01;
  EXPECT_EQ(plan.at("arena_bytes"), results.at("memory_arena_predicted_bytes"));
  const auto bytes = results.at("memory_process_predicted_bytes").get<double>();
  EXPECT_NEAR(plan.at("process_peak_bytes").get<double>(), bytes,
              std::max(kShare * bytes, 8.0 * static_cast<double>(kMebibyte)));
}

TEST_F(CliRankMemory, OfAPlanIsThatOfARun) {
  if (!measures_memory()) return;
  const nlohmann::json plan = planned(2);
  EXPECT_TRUE(plan.at("mpi").at("measured_ranks").is_null()) << plan.at("mpi");
  expect_as_predicted(plan, predicted(2));
  EXPECT_FALSE(planned(1).contains("mpi"));
}

TEST_F(CliRankMemory, OfAPlanIsWhatTopoMeasured) {
  if (!fs::exists(fs::path(SHOEHORN_PROGRAM).parent_path() / "libshoehorn_hwloc.so"))
    GTEST_SKIP() << "no hwloc: libhwloc-dev, and a build with it";
  if (!measures_memory()) return;
  const ProgramRun topo = run({"launch", "--nproc_per_node", "2", "topo"});
  ASSERT_EQ(topo.exit_code, 0) << topo.output << topo.error;
  const nlohmann::json plan = planned(2);
  EXPECT_EQ(plan.at("mpi").at("measured_ranks"), 2);
  EXPECT_GT(plan.at("mpi").at("bytes").get<int64_t>(), kMebibyte);
  expect_as_predicted(plan, predicted(2));
  const ProgramRun of_three = run(words("plan", {"--world_size", "3"}));
  EXPECT_TRUE(
      contains(of_three.output, "of the process besides the arenas, as measured on 2 ranks of this host"))
      << of_three.output;
}

}  // namespace
}  // namespace shoehorn
