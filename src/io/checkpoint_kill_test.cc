// kill -9 at random instants of a process that writes, replaces and rotates checkpoints: whatever commit()
// returned for is there afterwards, complete and identical, and recovery leaves nothing else.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kElements = 30011;

// Checkpoint number `turn` of a run: each step is written twice, the second replaces the first.
int64_t step_of(int64_t turn) {
  return turn / 2;
}

std::vector<float> weights_of(int64_t turn) {
  std::vector<float> weights(kElements);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(turn) + static_cast<float>(i % 97) * 0.25F;
  return weights;
}

void write_turn(const fs::path& output_dir, int64_t turn) {
  StagedDirectory staged(output_dir, step_of(turn));
  SafetensorsWriter weights(staged.path() / "model.safetensors", {{"w", DType::kF32, {kElements}}});
  const std::vector<float> values = weights_of(turn);
  weights.append("w", std::as_bytes(std::span(values)));
  weights.commit();
  write_json_atomic(staged.path() / "trainer_state.json", nlohmann::json{{"turn", turn}});
  staged.commit();
}

// Goes on from what it finds and writes every committed turn to `report`, until killed.
[[noreturn]] void train(const fs::path& output_dir, int report) {
  try {
    recover_checkpoints(output_dir);
    const auto latest = latest_checkpoint(output_dir);
    int64_t turn =
        latest.path ? read_json(*latest.path / "trainer_state.json")["turn"].get<int64_t>() + 1 : 0;
    for (;; ++turn) {
      write_turn(output_dir, turn);
      if (write(report, &turn, sizeof(turn)) != sizeof(turn)) _exit(1);
      rotate_checkpoints(output_dir, 3, "");
    }
  } catch (const std::exception&) {
    _exit(2);
  }
}

// Kills `child` after `delay`, counted from its first report if `wait_for_report`; returns the last turn it
// reported, or `last`.
int64_t kill_after(pid_t child, int report, std::chrono::microseconds delay, bool wait_for_report,
                   int64_t last) {
  pollfd ready = {report, POLLIN, 0};
  if (wait_for_report) poll(&ready, 1, 5000);
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself with " << WEXITSTATUS(status);
  for (int64_t turn = 0; read(report, &turn, sizeof(turn)) == sizeof(turn);) last = turn;
  return last;
}

// The turn that the latest checkpoint holds, after checking every byte of it.
int64_t verify_latest(const fs::path& output_dir) {
  const LatestCheckpoint latest = latest_checkpoint(output_dir);
  EXPECT_TRUE(latest.skipped.empty()) << latest.skipped[0].reason;
  if (!latest.path) return -1;
  const int64_t turn = read_json(*latest.path / "trainer_state.json")["turn"].get<int64_t>();
  EXPECT_EQ(latest.step, step_of(turn));
  std::vector<float> weights(kElements);
  SafetensorsFile::open(*latest.path / "model.safetensors")
      .read_into("w", std::as_writable_bytes(std::span(weights)));
  EXPECT_EQ(weights, weights_of(turn));
  return turn;
}

TEST(CheckpointKill, WhatWasCommittedSurvives) {
  const TestDirectory directory;
  std::mt19937_64 random(11);
  int64_t last = -1;
  int64_t leftovers = 0;
  constexpr int kKills = 60;
  for (int round = 0; round < kKills && !HasFailure(); ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      train(directory.path(), ends[1]);
    }
    close(ends[1]);
    const int64_t reported =
        kill_after(child, ends[0], std::chrono::microseconds(random() % 90000), round % 2 == 0, last);
    close(ends[0]);
    const RecoveredCheckpoints recovered = recover_checkpoints(directory.path());
    leftovers += static_cast<int64_t>(recovered.removed.size() + recovered.restored.size());
    for (const std::string& name : list_directory(directory.path()))
      EXPECT_TRUE(name.starts_with("checkpoint-")) << name;
    // One more than reported: killed between commit() and the report.
    last = verify_latest(directory.path());
    EXPECT_GE(last, reported);
    EXPECT_LE(last, reported + 1);
    EXPECT_LE(list_checkpoints(directory.path()).size(), 4U);
  }
  EXPECT_GT(last, 0);
  EXPECT_GT(leftovers, 5) << "the kills must hit while something is being written";
  RecordProperty("turns", static_cast<int>(last));
  RecordProperty("leftovers", static_cast<int>(leftovers));
}

}  // namespace
}  // namespace shoehorn
