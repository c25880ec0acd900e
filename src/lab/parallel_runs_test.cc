#include "lab/parallel_runs.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

ParallelRun measured(double samples_per_second) {
  ParallelRun run;
  run.outcome = RunOutcome::kMeasured;
  run.samples_per_second = samples_per_second;
  run.train_seconds = 1;
  return run;
}

// Stopped before every setting ran: what was measured is shown, and compared with what was measured.
TEST(ParallelRuns, AStopLeavesWhatWasMeasured) {
  ParallelResults results;
  results.settings = {{{"one process"}, {measured(3)}}, {{"dp"}, {measured(2)}}, {{"ddp"}, {}}};
  const std::string text = format_parallel(results);
  EXPECT_TRUE(contains(text, "3.000")) << text;
  EXPECT_TRUE(contains(text, "2.000")) << text;
  const nlohmann::ordered_json json = to_json(results);
  EXPECT_EQ(json["settings"][1]["samples_per_second"]["median"], 2);
  EXPECT_FALSE(json["settings"][2].contains("samples_per_second"));
  results.settings[2].runs = {measured(4)};
  EXPECT_TRUE(contains(format_parallel(results), "0.50")) << "dp beside ddp";
  EXPECT_TRUE(contains(format_parallel(results), "1.33")) << "ddp beside one process";
  EXPECT_DOUBLE_EQ(to_json(results)["settings"][1]["times_one_process"].get<double>(), 2.0 / 3);
}

// The same effective batch and threads in each; a plan is of what runs.
TEST(ParallelRuns, ASettingIsFlagsOfTrainAndOfPlan) {
  const ParallelOptions options{
      .flags = {"--bf16"}, .ranks = 3, .threads = 2, .accumulation = 4, .links = {link_of(1, 1000)}};
  const std::vector<ParallelSetting> settings = parallel_settings(options);
  ASSERT_EQ(settings.size(), 9U) << "one process, and without dp four modes over two links";
  const auto text = [](const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, " "));
  };
  EXPECT_EQ(text(plan_words(options, settings[0])),
            "plan --bf16 --gradient_accumulation_steps 12 --num_threads 6 --json");
  EXPECT_EQ(settings[8].mode, "zero_3");
  EXPECT_EQ(
      text(command_words(options, settings[8])),
      "launch --nproc_per_node 3 --link_bandwidth 1 --link_latency 1000 train --bf16 "
      "--gradient_accumulation_steps 4 --num_threads 2 --zero_stage 3 --profile 8 --save_strategy no --report_to none");
  EXPECT_EQ(text(plan_words(options, settings[8])),
            "plan --bf16 --gradient_accumulation_steps 4 --num_threads 2 --zero_stage 3 --world_size 3 "
            "--link_bandwidth 1 --link_latency 1000 --json");
}

// What a run lacks is left out of its medians.
TEST(ParallelRuns, SharesThatWereNotMeasuredAreLeftOut) {
  ParallelResult result{{"ddp"}, {measured(2), measured(3)}};
  EXPECT_FALSE(result.of(&ParallelRun::hidden_share));
  result.runs[1].hidden_share = 0.75;
  EXPECT_EQ(result.of(&ParallelRun::hidden_share), 0.75);
}

}  // namespace
}  // namespace shoehorn
