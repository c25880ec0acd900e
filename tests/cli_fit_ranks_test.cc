// `train --fit` on ranks: the first searches, and all train with what it finds. Skipped where there is no MPI.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/processors.h"
#include "beside_program.h"
#include "cli_support.h"
#include "io/json_file.h"
#include "rank_processes.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class CliFitRanks : public CliTest {
 protected:
  // Times are lower bounds, whatever the user of this machine has calibrated.
  CliFitRanks() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~CliFitRanks() override { unsetenv("XDG_CACHE_HOME"); }

  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  }

  std::vector<std::string> fit_words(const std::vector<std::string>& more) const {
    return joined(train_words({"--fit", "--save_strategy", "no", "--max_steps", "2"}), more);
  }

  // The command that a search has printed, as words of the program.
  static std::vector<std::string> printed_words(const std::string& output) {
    const std::string heading = "\nTo train:\n  shoehorn ";
    const size_t begin = output.find(heading);
    if (begin == std::string::npos) return {};
    const size_t end = output.find('\n', begin + heading.size());
    std::istringstream command(output.substr(begin + heading.size(), end - begin - heading.size()));
    std::vector<std::string> words;
    for (std::string word; command >> word;) words.push_back(word);
    return words;
  }

  // Two ranks that mpirun starts, each with words of its own.
  ProgramRun run_ranks_of(const std::vector<std::string>& first,
                          const std::vector<std::string>& second) const {
    std::string command = "mpirun --allow-run-as-root --oversubscribe";
    for (const std::vector<std::string>* words : {&first, &second}) {
      command += fmt::format("{} -n 1 '{}'", words == &first ? "" : " :", SHOEHORN_PROGRAM);
      for (const std::string& word : *words) command += " '" + word + "'";
    }
    return StartedProgram({"-c", command}, directory_.path(), {}, "/bin/sh").wait();
  }

  const ShortWaitOfMpirun short_wait_;
};

// The others wait for longer than they do for a message, and no rank holds anything of the search, which changes something here.
TEST_F(CliFitRanks, TrainWithTheFlagsThatArePrinted) {
  const std::vector<std::string> how = {"--effective_batch_size", "12", "--num_threads", "1",
                                        "--ddp_timeout",          "2",  "--allow",       "numerics"};
  std::vector<std::string> asked = fit_words(how);
  const auto micro_batch = std::ranges::find(asked, "--per_device_train_batch_size");
  asked.erase(micro_batch, micro_batch + 2);
  const ProgramRun found = run(joined({"launch", "--nproc_per_node", "2"}, asked));
  ASSERT_EQ(found.exit_code, 0) << found.output << found.error;
  EXPECT_TRUE(contains(found.output, "Finding the fastest plan of 2 ranks that fits ")) << found.output;
  EXPECT_TRUE(contains(found.output, "What binds")) << found.output;
  EXPECT_FALSE(contains(found.output, "  changes              as asked for")) << found.output;
  EXPECT_TRUE(contains(found.output, processors().usable() < 2 ? "\nNot timed: " : " s, measured; "))
      << found.output;
  const auto predicted = [&] {
    return read_json(output() / "all_results.json")["memory_process_predicted_bytes"].get<double>();
  };
  const std::string weights = read_text_file(output() / "model.safetensors");
  const double of_found = predicted();
  const std::vector<std::string> words = printed_words(found.output);
  ASSERT_GT(words.size(), 4U) << found.output;
  EXPECT_EQ(std::vector<std::string>(words.begin(), words.begin() + 4),
            (std::vector<std::string>{"launch", "--nproc_per_node", "2", "train"}));
  EXPECT_TRUE(std::ranges::find(words, "--allow") == words.end());
  std::filesystem::remove_all(output());
  const ProgramRun trained = run(words);
  ASSERT_EQ(trained.exit_code, 0) << trained.output << trained.error;
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == weights);
  if (measures_memory()) {
    EXPECT_NEAR(of_found, predicted(), kMebibyte) << "the search leaves nothing in the process";
  }
}

// The best plans are run as ranks: of texts these are the programs of the plan.
TEST_F(CliFitRanks, RunTheBestPlans) {
  if (processors().usable() < 2) GTEST_SKIP() << "two ranks need two processors";
  std::vector<std::string> asked =
      train_words({"--world_size", "2", "--num_threads", "1", "--verify", "2", "--link_bandwidth", "10",
                   "--effective_batch_size", "8", "--json"});
  asked[0] = "fit";
  const auto micro_batch = std::ranges::find(asked, "--per_device_train_batch_size");
  asked.erase(micro_batch, micro_batch + 2);
  const ProgramRun found = run(asked);
  ASSERT_EQ(found.exit_code, 0) << found.output << found.error;
  const nlohmann::json result = nlohmann::json::parse(found.output);
  EXPECT_EQ(result.at("not_measured"), nlohmann::json::array()) << found.output;
  EXPECT_EQ(result.at("chosen").at("step_seconds_are"), "measured");
}

TEST_F(CliFitRanks, AreOfferedToBeMeasuredOnOneHost) {
  std::vector<std::string> asked = train_words({"--world_size", "2", "--num_threads", "1"});
  asked[0] = "fit";
  const ProgramRun on_one_host = run(asked);
  EXPECT_EQ(contains(on_one_host.output, "; --verify 3 measures\n"), processors().usable() >= 2)
      << on_one_host.output << on_one_host.error;
  const ProgramRun on_two = run(joined(asked, {"--ranks_per_host", "1"}));
  EXPECT_TRUE(contains(on_two.output, "  changes ")) << on_two.output << on_two.error;
  EXPECT_FALSE(contains(on_two.output, "--verify")) << on_two.output;
}

// The least budget of all ranks counts, and what does not fit it ends all of them with one error.
TEST_F(CliFitRanks, FitTheRankThatMayTakeLeast) {
  const ProgramRun result =
      run_ranks_of(fit_words({"--memory_budget", "2GiB"}), fit_words({"--memory_budget", "1MiB"}));
  EXPECT_EQ(result.exit_code, 2) << result.output << result.error;
  EXPECT_TRUE(contains(result.error, ": error: [memory_budget] expected at least ")) << result.error;
  EXPECT_TRUE(contains(result.error, ", got 1.00 MiB: none of ")) << result.error;
  EXPECT_EQ(result.error.find("error: "), result.error.rfind("error: ")) << result.error;
  EXPECT_FALSE(std::filesystem::exists(output()));
}

// Of more threads than this host has processors for no plan is run: its time would not be that of the training.
TEST_F(CliFitRanks, PlansRunWhereThereIsAProcessorForEachThread) {
  const std::string threads = std::to_string(processors().usable());
  const std::vector<std::string> launch = {"launch", "--nproc_per_node", "2"};
  const std::vector<std::string> words = fit_words({"--num_threads", threads});
  const ProgramRun trained = run(joined(launch, words));
  ASSERT_EQ(trained.exit_code, 0) << trained.output << trained.error;
  EXPECT_TRUE(contains(trained.output, "\nNot timed: ")) << trained.output;
  std::filesystem::remove_all(output());
  const ProgramRun refused = run(joined(launch, joined(words, {"--verify", "1"})));
  EXPECT_EQ(refused.exit_code, 2) << refused.output << refused.error;
  EXPECT_TRUE(
      contains(refused.error,
               "error: [--verify] expected ranks that mpirun started on one host with a processor for each"))
      << refused.error;
  EXPECT_EQ(refused.error.find("error: "), refused.error.rfind("error: ")) << refused.error;
}

// A rank that was not asked to search is named.
TEST_F(CliFitRanks, SearchTogether) {
  std::vector<std::string> only_trains = fit_words({});
  std::erase(only_trains, "--fit");
  const ProgramRun result = run_ranks_of(fit_words({}), only_trains);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(
      contains(result.error,
               "[ranks] expected --fit with its flags to be the same on all ranks, got another on rank 1"))
      << result.error;
}

// Before ranks are started.
TEST_F(CliFitRanks, MistakesOfASearchAreTold) {
  const std::vector<std::string> launch = {"launch", "--nproc_per_node", "2"};
  expect_failure(joined(launch, fit_words({"--reserve", "much"})), 2, {"[--reserve] expected", "much"});
  expect_failure(joined({"launch", "--max_restarts", "1", "--nproc_per_node", "2"}, fit_words({})), 2,
                 {"[--max_restarts] expected flags of train to start again with, got --fit"});
}

}  // namespace
}  // namespace shoehorn
