// kill -9 of ranks, while they write a checkpoint and at random instants: no checkpoint that is not whole is ever taken for one,
// the others end soon, and the run that goes on ends where the run that was never killed ends, bit for bit. Skipped where there
// is no MPI.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "base/process.h"
#include "beside_program.h"
#include "cli_support.h"
#include "environment_count.h"
#include "io/checkpoint_directory.h"
#include "rank_processes.h"
#include "ranks/rank_launcher.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr double kMostSecondsToEnd = kIsSanitized ? 60 : 10;

class CliRankKill : public CliTest {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  }

  std::vector<std::string> words(int ranks, const fs::path& output_dir, bool resumes,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"launch", "--nproc_per_node", std::to_string(ranks)};
    const std::vector<std::string> train =
        train_words({"--output_dir", output_dir, "--save_total_limit", "3", "--logging_steps", "50",
                     "--per_device_train_batch_size", "2", "--zero_persistence_threshold", "0"});
    all.insert(all.end(), train.begin(), train.end());
    all.insert(all.end(), more.begin(), more.end());
    if (resumes) all.emplace_back("--resume_from_checkpoint");
    return all;
  }

  // Waits for the launcher and for its ranks, some of which were killed. An mpirun that waits for itself is ended later.
  static ProgramRun end_of(StartedProgram& program, const std::map<int, pid_t>& ranks) {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&begin] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    ProgramRun result = program.wait();
    const bool was_stuck = contains(result.error, "[mpirun] expected its end");
    const double most_seconds = kMostSecondsToEnd + (was_stuck ? kSecondsAlone : 0);
    const auto any_runs = [&ranks] {
      return std::ranges::any_of(ranks, [](const auto& rank) { return is_process_running(rank.second); });
    };
    while (any_runs() && seconds() < most_seconds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LT(seconds(), most_seconds) << result.error;
    return result;
  }

  void expect_whole_checkpoints() const {
    for (const fs::path& checkpoint : list_checkpoints(output()))
      EXPECT_EQ(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "") << checkpoint;
  }

  int64_t kill_while_writing(const std::vector<std::string>& run_words, const std::set<int>& victims) const;

  void expect_model_of(const fs::path& uninterrupted) const {
    EXPECT_TRUE(read_text_file(output() / "model.safetensors") ==
                read_text_file(uninterrupted / "model.safetensors"));
  }

 private:
  const ShortWaitOfMpirun short_wait_;
};

// The step of the checkpoint that is being written; 0: none is.
int64_t step_being_written(const fs::path& output_dir) {
  constexpr std::string_view kStaged = ".tmp-checkpoint-";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kStaged)) return std::stoll(name.substr(kStaged.size()));
  }
  return 0;
}

// Kills the victims among the ranks while they write a checkpoint behind their first. Returns its step; 0 where they were
// faster, and finished it.
int64_t CliRankKill::kill_while_writing(const std::vector<std::string>& run_words,
                                        const std::set<int>& victims) const {
  fs::remove_all(output());
  StartedProgram program(run_words, directory_.path());
  std::map<int, pid_t> ranks;
  while (list_checkpoints(output()).empty() && is_process_running(program.pid())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ranks = ranks_of(program.pid());
  }
  int64_t written = 0;
  while (written == 0 && is_process_running(program.pid())) written = step_being_written(output());
  for (const int victim : victims) kill(ranks.at(victim), SIGKILL);
  end_of(program, ranks);
  return fs::exists(output() / fmt::format("checkpoint-{}", written)) ? 0 : written;
}

// The first of four ranks, which names the checkpoint; the last, which writes a part of it; or all.
TEST_F(CliRankKill, WhileTheyWriteTheCheckpointBeforeCounts) {
  constexpr int kRanks = 4, kTries = 10;
  constexpr int64_t kSaveSteps = 20;
  const std::vector<std::string> more = {"--max_steps",  "100", "--save_steps", std::to_string(kSaveSteps),
                                         "--zero_stage", "2"};
  ASSERT_EQ(run(words(kRanks, path("uninterrupted"), false, more)).exit_code, 0);
  for (const std::set<int>& victims : {std::set{0}, {kRanks - 1}, {0, 1, 2, 3}}) {
    SCOPED_TRACE(fmt::format("{} killed, of them the last is rank {}", victims.size(), *victims.rbegin()));
    int64_t written = 0;
    for (int i = 0; i < kTries && written == 0 && !HasFailure(); ++i)
      written = kill_while_writing(words(kRanks, output(), false, more), victims);
    ASSERT_GT(written, 0) << "no kill hit a checkpoint that was being written";
    expect_whole_checkpoints();
    const int64_t before = written - kSaveSteps;
    EXPECT_EQ(latest_checkpoint(output()).step, before);
    const ProgramRun resumed = run(words(kRanks, output(), true, more));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
    EXPECT_EQ(step_being_written(output()), 0) << "what the killed run left is gone";
    expect_model_of(path("uninterrupted"));
  }
}

// A rank at a time, from the start of the processes on; each run goes on from what the one before left.
TEST_F(CliRankKill, TheRunGoesOnAsIfNothingHadHappened) {
  constexpr int kRanks = 3;
  const std::vector<std::string> more = {"--max_steps", "200", "--save_steps", "10", "--zero_stage", "3"};
  const fs::path uninterrupted = path("uninterrupted");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run(words(kRanks, uninterrupted, false, more)).exit_code, 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> delay(0, whole.count());
  int finished = 0, resumed = 0;
  for (int kills = 0; kills < environment_count("SHOEHORN_RANK_KILLS", 5) && !HasFailure();) {
    const bool resumes = latest_checkpoint(output()).path.has_value();
    StartedProgram program(words(kRanks, output(), resumes, more), directory_.path());
    std::this_thread::sleep_for(std::chrono::duration<double>(delay(random)));
    std::map<int, pid_t> ranks = ranks_of(program.pid());
    while (ranks.empty() && is_process_running(program.pid())) ranks = ranks_of(program.pid());
    const auto victim = ranks.find(static_cast<int>(random() % kRanks));
    if (victim != ranks.end()) kill(victim->second, SIGKILL);
    const ProgramRun result = end_of(program, ranks);
    expect_whole_checkpoints();
    resumed += resumes ? 1 : 0;
    if (result.exit_code == 0) {
      expect_model_of(uninterrupted);
      fs::remove_all(output());
      ++finished;
    } else {
      kills += victim != ranks.end() ? 1 : 0;
    }
  }
  const bool resumes = latest_checkpoint(output()).path.has_value();
  const ProgramRun last = run(words(kRanks, output(), resumes, more));
  ASSERT_EQ(last.exit_code, 0) << last.error;
  expect_model_of(uninterrupted);
  EXPECT_GT(resumed + (resumes ? 1 : 0), 0) << "the kills must hit runs that have something to lose";
  RecordProperty("finished_between", finished);
}

}  // namespace
}  // namespace shoehorn
