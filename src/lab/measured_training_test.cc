#include "lab/measured_training.h"

#include <gtest/gtest.h>

#include "io/test_directory.h"
#include "state/trainer_state.h"

namespace shoehorn {
namespace {

constexpr const char* kResults =
    R"({"train_runtime": 2.5, "train_samples_per_second": 40.0, "train_loss": 1.5, "eval_loss": 0.5,
"eval_accuracy": 0.75, "memory_process_predicted_bytes": 2000, "memory_process_measured_bytes": 1900,
"train_data_wait_share": 0.01})";

FinishedProcess ended_with(int exit_code, const std::string& error = "") {
  FinishedProcess finished;
  finished.exit_code = exit_code;
  finished.error = error;
  return finished;
}

void write_state(const std::filesystem::path& directory) {
  TrainerState state;
  state.log({{"loss", 2.0}, {"learning_rate", 1e-3}});
  state.log({{"loss", 1.0}});
  state.log({{"eval_loss", 0.5}});
  save_trainer_state(state, directory / "trainer_state.json");
}

TEST(TrainingRunTest, ReadsWhatTrainWrites) {
  const TestDirectory directory;
  directory.write("all_results.json", kResults);
  write_state(directory.path());
  const TrainingRun run = read_training(ended_with(0), directory.path());
  ASSERT_TRUE(run.is_measured()) << run.reason;
  EXPECT_EQ(run.train_seconds, 2.5);
  EXPECT_EQ(run.samples_per_second, 40);
  EXPECT_EQ(run.train_loss, 1.5);
  EXPECT_EQ(run.eval_loss, 0.5);
  EXPECT_EQ(run.eval_accuracy, 0.75);
  EXPECT_EQ(run.predicted_bytes, 2000);
  EXPECT_EQ(run.measured_bytes, 1900);
  EXPECT_EQ(run.data_wait_share, 0.01);
  EXPECT_EQ(run.step_losses, (std::vector<double>{2, 1}));
}

TEST(TrainingRunTest, WhatIsMissingIsTheReason) {
  const TestDirectory directory;
  EXPECT_EQ(read_training(ended_with(0), directory.path()).outcome, RunOutcome::kFailed);
  directory.write("all_results.json", R"({"train_runtime": 2.5})");
  write_state(directory.path());
  const TrainingRun run = read_training(ended_with(0), directory.path());
  EXPECT_EQ(run.outcome, RunOutcome::kFailed);
  EXPECT_NE(run.reason.find("train_samples_per_second"), std::string::npos) << run.reason;
}

TEST(TrainingRunTest, Outcomes) {
  const TestDirectory directory;
  const auto outcome = [&](int exit_code, const std::string& error) {
    return read_training(ended_with(exit_code, error), directory.path()).outcome;
  };
  EXPECT_EQ(outcome(2, R"({"error": "expected less", "kind": "does_not_fit"})"), RunOutcome::kDoesNotFit);
  EXPECT_EQ(outcome(2, R"({"error": "[--optim] expected …", "kind": "user"})"), RunOutcome::kRefused);
  EXPECT_EQ(outcome(1, R"({"error": "[x] a bug", "kind": "other"})"), RunOutcome::kFailed);
  EXPECT_EQ(
      read_training(ended_with(1, R"({"error": "[x] a bug", "kind": "other"})"), directory.path()).reason,
      "[x] a bug");
}

}  // namespace
}  // namespace shoehorn
