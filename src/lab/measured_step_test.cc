#include "lab/measured_step.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

namespace shoehorn {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

FinishedProcess ended(int exit_code, const std::string& output, const std::string& error = "") {
  FinishedProcess finished;
  finished.exit_code = exit_code;
  finished.output = output;
  finished.error = error;
  return finished;
}

const char* const kStep =
    R"({"samples_per_second": 4.0, "tokens_per_second": 40, "step_seconds": 1.0, "first_step_seconds": 0.5,
"program": "1f", "memory_arena_predicted_bytes": 104857600, "memory_arena_measured_bytes": 104857600,
"memory_process_predicted_bytes": 136314880, "memory_process_measured_bytes": 131072000})";

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + "\n";
}

TEST(BenchRun, PlanThatFits) {
  const StepPlan plan = read_plan(ended(0, R"({
  "fits": true,
  "process_peak_bytes": 1000,
  "budget_bytes": 2000,
  "by_role": {"weight": 300}
})"));
  EXPECT_EQ(plan.outcome, RunOutcome::kMeasured);
  EXPECT_EQ(plan.peak_bytes, 1000);
  EXPECT_EQ(plan.budget_bytes, 2000);
  EXPECT_EQ(plan.weight_bytes, 300);
}

TEST(BenchRun, PlanThatDoesNotFit) {
  const StepPlan plan =
      read_plan(ended(2, R"({"fits": false, "process_peak_bytes": 3000, "budget_bytes": 2000})",
                      R"({"error": "[memory] expected …", "kind": "does_not_fit"})"));
  EXPECT_EQ(plan.outcome, RunOutcome::kDoesNotFit);
  EXPECT_EQ(plan.peak_bytes, 3000);
}

TEST(BenchRun, RefusedFlag) {
  const auto plan_of = [](const char* kind) {
    return read_plan(
        ended(2, "", fmt::format(R"({{"error": "[--fp16] expected false", "kind": "{}"}})", kind)));
  };
  EXPECT_EQ(plan_of("user").outcome, RunOutcome::kRefused);
  EXPECT_EQ(plan_of("user").reason, "[--fp16] expected false");
  EXPECT_EQ(plan_of("not_in_this_version").outcome, RunOutcome::kNotInThisVersion);
  EXPECT_EQ(plan_of("does_not_fit").outcome, RunOutcome::kDoesNotFit);
  EXPECT_EQ(outcome_text(RunOutcome::kNotInThisVersion), "not in this version");
  EXPECT_EQ(outcome_text(RunOutcome::kRefused), "refused");
  // The words of a message decide nothing.
  EXPECT_EQ(read_peer_step(ended(2, "", "error: [memory] not in this version\n")).outcome,
            RunOutcome::kRefused);
}

TEST(BenchRun, BrokenDown) {
  EXPECT_EQ(read_plan(ended(1, "", R"({"error": "[x] a bug", "kind": "other"})")).outcome,
            RunOutcome::kFailed);
  EXPECT_EQ(read_step(ended(1, "", R"({"error": "[x] a bug", "kind": "other"})"), {}).reason, "[x] a bug");
  EXPECT_EQ(read_step(ended(0, "no object\n"), {}).outcome, RunOutcome::kFailed);
  EXPECT_EQ(read_step(ended(0, "{\"step_seconds\": 1"), {}).outcome, RunOutcome::kFailed);
  EXPECT_EQ(read_peer_step(ended(1, "", "Traceback\n  File\nValueError: no\n")).reason, "ValueError: no");
  // Where ranks failed mpirun has the last words.
  EXPECT_EQ(failure_of(ended(1, "", "error: [x] a rank's\n-----\nmpirun noticed\n-----\n")).reason,
            "[x] a rank's");
  EXPECT_EQ(failure_of(ended(1, "", "mpirun noticed\n-----\n\n")).reason, "mpirun noticed");
  FinishedProcess killed = ended(-1, "");
  killed.signal = 9;
  EXPECT_EQ(read_step(killed, {}).outcome, RunOutcome::kFailed);
  EXPECT_NE(read_step(killed, {}).reason.find("signal 9"), std::string::npos);
}

TEST(BenchRun, StagesOfMemory) {
  StepPlan plan;
  plan.weight_bytes = 20 * kMebibyte;
  const StepRun run = read_step(ended(0, "a line before it\n" + one_line(kStep)), plan);
  ASSERT_EQ(run.outcome, RunOutcome::kMeasured) << run.reason;
  EXPECT_EQ(run.samples_per_second, 4.0);
  EXPECT_EQ(run.tokens_per_second, 40);
  EXPECT_EQ(run.program, "1f");
  EXPECT_EQ(run.memory.training_bytes, 125 * kMebibyte);
  EXPECT_EQ(run.memory.process_bytes, 25 * kMebibyte);
  EXPECT_EQ(run.memory.with_weights_bytes, 45 * kMebibyte);
  EXPECT_EQ(run.predicted_bytes, 130 * kMebibyte);
}

TEST(BenchRun, Peer) {
  const StepRun run =
      read_peer_step(ended(0,
                           R"({"samples_per_second": 2, "step_seconds": 2, "first_step_seconds": 9,
 "process_bytes": 100, "before_train_bytes": 200, "peak_bytes": 500, "ran": "fp32: fp16 is skipped"})"
                           "\n"));
  EXPECT_EQ(run.outcome, RunOutcome::kFailed) << "an object over two lines";
  const StepRun good = read_peer_step(
      ended(0, one_line(R"({"samples_per_second": 2, "step_seconds": 2, "first_step_seconds": 9,
 "process_bytes": 100, "before_train_bytes": 200, "peak_bytes": 500, "ran": "fp32: fp16 is skipped"})")));
  ASSERT_EQ(good.outcome, RunOutcome::kMeasured);
  EXPECT_EQ(good.memory.process_bytes, 100);
  EXPECT_EQ(good.memory.with_weights_bytes, 200);
  EXPECT_EQ(good.memory.training_bytes, 500);
  EXPECT_EQ(good.ran, "fp32: fp16 is skipped");
}

TEST(BenchRun, EverySampleAndTheLoadAreKept) {
  FinishedProcess finished = ended(0, "");
  finished.output = one_line(
      R"({"samples_per_second": 4.0, "tokens_per_second": 40, "step_seconds": 1.0, "step_samples": [0.9, 1.0, 1.3],
"load": {"average_before": 0.5, "average_after": 2, "involuntary_switches": 9, "cpu_share": 0.75}})");
  const StepRun one = read_step(finished, {});
  ASSERT_EQ(one.step_samples, (std::vector<double>{0.9, 1.0, 1.3}));
  ASSERT_EQ(one.loads.size(), 1U);
  EXPECT_EQ(one.loads[0].involuntary_switches, 9);
  EXPECT_EQ(one.loads[0].cpu_share, 0.75);
  StepRun other = one;
  other.step_samples = {2.0, 2.2, 2.4};
  const StepRun both = pooled_run({one, other});
  EXPECT_EQ(both.step_samples.size(), 6U);
  EXPECT_EQ(both.loads.size(), 2U);
  EXPECT_DOUBLE_EQ(both.step_seconds, (1.3 + 2.0) / 2);
  EXPECT_DOUBLE_EQ(both.samples_per_second, 4.0 / both.step_seconds) << "four samples a step";
  EXPECT_DOUBLE_EQ(both.tokens_per_second, 40 / both.step_seconds);
  EXPECT_EQ(describe_spread(both, 0.02),
            "1.67–4.44 samples/s in 6 steps, median known to 45 %, which is less well than asked for");
}

TEST(BenchRun, Medians) {
  std::vector<StepRun> runs(3);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].outcome = RunOutcome::kMeasured;
    runs[i].step_seconds = static_cast<double>((i * 2) % 3);  // 0, 2, 1
    runs[i].memory.training_bytes = 10 + static_cast<int64_t>(i);
  }
  EXPECT_EQ(pooled_run(runs).step_seconds, 1);
  EXPECT_EQ(pooled_run(runs).memory.training_bytes, 11);
  runs.pop_back();
  EXPECT_EQ(pooled_run(runs).step_seconds, 1);  // of 0 and 2
  runs[1].outcome = RunOutcome::kFailed;
  runs[1].reason = "broke";
  EXPECT_EQ(pooled_run(runs).reason, "broke");
}

}  // namespace
}  // namespace shoehorn
