// kill -9 at random instants of the program that trains: no finished checkpoint is ever lost, and the run
// that goes on from what is left ends where the run that was never killed ends, bit for bit.
#include <chrono>
#include <random>
#include <thread>

#include "cli_support.h"
#include "io/checkpoint_directory.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr int kKills = 50;

class CliKill : public CliTest {
 protected:
  static constexpr int64_t kSteps = 12;

  std::vector<std::string> words(const fs::path& output_dir, bool resume) const {
    std::vector<std::string> all = train_words(
        {"--output_dir", output_dir, "--max_steps", std::to_string(kSteps), "--save_steps", "1",
         "--save_total_limit", "3", "--logging_steps", "1", "--gradient_accumulation_steps", "2"});
    if (resume) all.emplace_back("--resume_from_checkpoint");
    return all;
  }

  // The newest checkpoint that the program said it had saved; 0 for none.
  static int64_t last_saved(const std::string& output) {
    const size_t at = output.rfind("/checkpoint-");
    const size_t end = at == std::string::npos ? at : output.find('\n', at);
    return end == std::string::npos ? 0 : std::stoll(output.substr(at + 12, end - at - 12));
  }

  void expect_finished(const fs::path& output_dir, const fs::path& uninterrupted) const {
    const std::string last = fmt::format("checkpoint-{}", kSteps);
    for (const char* name :
         {"model.safetensors", "optimizer.safetensors", "trainer_state.json", "shoehorn_state.json"}) {
      EXPECT_TRUE(read_text_file(output_dir / last / name) == read_text_file(uninterrupted / last / name))
          << name << " differs";
    }
    EXPECT_TRUE(read_text_file(output_dir / "model.safetensors") ==
                read_text_file(uninterrupted / "model.safetensors"));
  }
};

TEST_F(CliKill, TheRunGoesOnAsIfNothingHadHappened) {
  const fs::path uninterrupted = path("uninterrupted");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run(words(uninterrupted, false)).exit_code, 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;

  std::mt19937_64 random(5);
  // Most instants fall early: what a resumed run does first must be survived too, and many runs must be cut to finish one.
  // How long a run takes changes with what else the machine does: kills come later where nothing was saved, and sooner where
  // a run has ended.
  double longest_seconds = 0.35 * whole.count();
  constexpr double kChange = 1.2;
  int64_t known = 0;
  int kills = 0;
  int finished = 0;
  int64_t resumed_from = 0;
  while (kills < kKills && !HasFailure()) {
    StartedProgram program(words(output(), known > 0), directory_.path());
    std::uniform_real_distribution<double> delay(0, longest_seconds);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay(random)));
    kill(program.pid(), SIGKILL);
    const ProgramRun result = program.wait();
    if (result.exit_code >= 0) {
      EXPECT_EQ(result.exit_code, 0) << result.error;
      expect_finished(output(), uninterrupted);
      fs::remove_all(output());
      known = 0;
      ++finished;
      longest_seconds /= kChange;
      continue;
    }
    ++kills;
    known = std::max(known, last_saved(result.output));
    const LatestCheckpoint latest = latest_checkpoint(output());
    EXPECT_GE(latest.step, known) << "after kill " << kills;
    for (const fs::path& checkpoint : list_checkpoints(output()))
      EXPECT_EQ(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "") << checkpoint;
    known = latest.step;
    resumed_from += known > 0 ? 1 : 0;
    if (known == 0) longest_seconds *= kChange;
  }
  ASSERT_EQ(run(words(output(), known > 0)).exit_code, 0);
  expect_finished(output(), uninterrupted);
  for (const auto& entry : fs::directory_iterator(output())) {
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path() << " is left of a killed run";
  }
  EXPECT_GE(resumed_from, kKills / 4) << "the kills must hit runs that have something to lose";
  RecordProperty("finished_between", finished);
  RecordProperty("resumed", static_cast<int>(resumed_from));
}

}  // namespace
}  // namespace shoehorn
