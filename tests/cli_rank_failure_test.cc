// Ranks of MPI of which one fails: all end soon, with one error of the program that names the rank and its host, and the last
// checkpoint is whole. Skipped where there is no MPI.
#include <sys/resource.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/process.h"
#include "beside_program.h"
#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "rank_processes.h"
#include "ranks/launched_rank.h"
#include "ranks/open_ranks.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// From a failure to the end of mpirun, which waits 8 of them where launch says how long.
constexpr double kMostSecondsOfAnEnd = kIsSanitized ? 60 : 10;

// A run of ranks that would go on for long, and has saved a checkpoint.
class CliRankFailure : public CliTest {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  }

  void start(int size, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"launch", "--nproc_per_node", std::to_string(size)};
    const std::vector<std::string> train = train_words({"--max_steps", "1000000", "--save_steps", "500",
                                                        "--save_total_limit", "2", "--logging_steps", "100"});
    words.insert(words.end(), train.begin(), train.end());
    words.insert(words.end(), more.begin(), more.end());
    program_.emplace(words, directory_.path());
    for (int i = 0; i < 12000 && list_checkpoints(output()).empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (std::ssize(ranks_) < size) ranks_ = ranks_of(program_->pid());
    }
    ASSERT_EQ(std::ssize(ranks_), size) << program_->output();
    begin_ = std::chrono::steady_clock::now();
  }

  // `error`: what a line says in front of it has the rank that says it.
  ProgramRun expect_end(const std::string& error, double more_seconds = 0) {
    const ProgramRun result = program_->wait();
    const double most_seconds = kMostSecondsOfAnEnd + more_seconds;
    while (runs_a_rank() && seconds() < most_seconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LT(seconds(), most_seconds) << result.error;
    EXPECT_NE(result.exit_code, 0);
    expect_one_error(result, error);
    EXPECT_FALSE(list_checkpoints(output()).empty());
    for (const std::filesystem::path& checkpoint : list_checkpoints(output()))
      EXPECT_EQ(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "") << checkpoint;
    return result;
  }

  static void expect_one_error(const ProgramRun& result, const std::string& error) {
    EXPECT_TRUE(contains(result.error, error));
    const size_t said = result.error.find("error: ");
    EXPECT_EQ(result.error.find("error: ", said + 1), std::string::npos) << result.error;
  }

  pid_t process_of(int rank) const { return ranks_.at(rank); }

  static std::string on_host(int rank) { return fmt::format("rank {} on {}", rank, host_name()); }

  std::optional<ShortWaitOfMpirun> short_wait_{std::in_place};

 private:
  bool runs_a_rank() const {
    return std::ranges::any_of(ranks_, [](const auto& rank) { return is_process_running(rank.second); });
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  std::optional<StartedProgram> program_;
  std::map<int, pid_t> ranks_;
  std::chrono::steady_clock::time_point begin_;
};

// Noticed by the one that waits for it, with the wait that launch gives mpirun; or by MPICH's mpiexec, which ends the others at once and names a process.
TEST_F(CliRankFailure, AKilledRankEndsTheRun) {
  short_wait_.reset();
  start(2, {});
  kill(process_of(1), SIGKILL);
  if (is_of_mpich()) {
    const ProgramRun result = expect_end("");
    EXPECT_TRUE(contains(result.output, "RUNNING AT " + host_name()) ||
                contains(result.error, "expected all to finish"));
    return;
  }
  expect_end(on_host(0) + ": error: [ranks] expected " + on_host(1) + " to send, got its end at " +
             on_host(0));
}

// The last rank has no room for its part of a checkpoint: it says so itself, and those that wait for it keep quiet.
TEST_F(CliRankFailure, AFullDiskOfOneRankEndsTheRun) {
  start(3, {"--zero_stage", "2", "--save_steps", "20"});
  const rlimit limit = {1000, 1000};
  ASSERT_EQ(prlimit(process_of(2), RLIMIT_FSIZE, &limit, nullptr), 0);
  expect_end(on_host(2) + ": error: [" + output().string());
}

// What all ranks run into is said by the first.
TEST_F(CliRankFailure, ANumberThatIsNoneEndsTheRun) {
  start(3, {"--save_steps", "1", "--learning_rate", "1e30", "--lr_scheduler_type", "constant",
            "--detect_anomaly"});
  expect_end(on_host(0) + ": error: [--detect_anomaly] expected");
}

// A mistake that one rank alone makes, where the others wait for it: a file that its directory lacks, a variable of its
// environment. It leaves them no time to make it, too.
TEST_F(CliRankFailure, AMistakeOfOneRankEndsTheRun) {
  const double most_seconds = kIsSanitized ? 60 : 6;  // of the run; a rank leaves others five for a mistake
  std::filesystem::create_directory(path("empty"));
  struct Case {
    std::string directory, environment, error;
  };
  for (const auto& [directory, environment, error] :
       {Case{"empty", "", "[train.csv] expected a file"},
        Case{".", fmt::format("{}=fast", kLinkVariable), fmt::format("[{}] expected", kLinkVariable)}}) {
    const auto run_in = [&](const std::string& place, const std::string& variable) {
      return fmt::format("env -C {} {} {} {}", path(place).string(), variable, SHOEHORN_PROGRAM,
                         fmt::join(train_words({"--train_file", "train.csv"}), " "));
    };
    const std::string command = start_two_ranks(run_in(".", ""), run_in(directory, environment));
    const auto begin = std::chrono::steady_clock::now();
    const ProgramRun result = StartedProgram({"-c", command}, directory_.path(), {}, "/bin/sh").wait();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(seconds.count(), most_seconds) << result.error;
    EXPECT_EQ(result.exit_code, 2);
    expect_one_error(result, on_host(1) + ": error: " + error);
  }
}

// A rank that is stopped is noticed after ddp_timeout.
TEST_F(CliRankFailure, AStoppedRankIsNamedAfterTheTimeout) {
  start(2, {"--ddp_timeout", "3"});
  kill(process_of(1), SIGSTOP);
  expect_end("error: [ddp_timeout] expected " + on_host(1) + " to send within 3 s", 3);
}

// Behind it all others wait for each other.
TEST_F(CliRankFailure, AStoppedRankOfSeveralIsTheOneThatIsNamed) {
  start(4, {"--ddp_timeout", "5"});
  kill(process_of(2), SIGSTOP);
  expect_end("error: [ddp_timeout] expected " + on_host(2) + " to send within 5 s", 5);
}

}  // namespace
}  // namespace shoehorn
