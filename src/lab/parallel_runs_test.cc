#include "lab/parallel_runs.h"

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
}

}  // namespace
}  // namespace shoehorn
