#include "fit/fit_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error_testing.h"
#include "fit/fit_page.h"

namespace shoehorn {
namespace {

PlannedCandidate made_up_plan(const std::vector<std::string>& flags, int64_t mebibytes, double seconds,
                              const std::set<MathsChange>& changes = {}) {
  PlannedCandidate plan;
  plan.run.flags = flags;
  plan.run.changes = changes;
  if (!changes.empty()) plan.run.tier = *changes.rbegin();
  plan.process_bytes = mebibytes << 20;
  plan.step_seconds = plan.time.seconds = seconds;
  return plan;
}

// What a search might have found under a budget of 320 MiB: the run as asked for is larger.
class FitReportTest : public testing::Test {
 protected:
  FitReportTest() {
    using enum MathsChange;
    asked_ = made_up_plan({}, 400, 1);
    recomputed_ = made_up_plan({"--gradient_checkpointing"}, 300, 1.2, {kExact});
    split_ = made_up_plan({"--per_device_train_batch_size", "1"}, 200, 1.5, {kRounding});
    half_ = made_up_plan({"--bf16"}, 150, 0.8, {kRounding, kNumerics});
    adapted_ = made_up_plan({"--lora_rank", "8"}, 100, 0.7, {kRounding, kNumerics, kAdapters});
    result_.frontier = {asked_, recomputed_, split_};
    result_.fitting = {recomputed_, split_};
    result_.least = {{kExact, recomputed_}, {kRounding, split_}, {kNumerics, half_}, {kAdapters, adapted_}};
    result_.techniques = {{"as asked for", asked_}, {"recompute every layer", recomputed_}, {"bf16", half_}};
    result_.bound = asked_;
    result_.plans = 9;
    report_.budget_bytes = int64_t{320} << 20;
    report_.best = {recomputed_, split_};
    report_.chosen = 0;
    report_.may_measure = true;
    report_.samples = 8;
    report_.samples_in_epoch = 800;
    report_.epochs = 3;
    report_.binding.run_phase = "train";
    report_.binding.peak_node = "node 5 of 60, matmul in layer 1, backward";
    report_.binding.residents = {{"activation of attention", 90 << 20}, {"weight of attention", 60 << 20}};
    report_.binding.total_bytes = asked_.process_bytes;
  }

  PlannedCandidate asked_, recomputed_, split_, half_, adapted_;
  FitResult result_;
  FitReport report_{result_};
};

// Its process may be larger another time.
TEST_F(FitReportTest, ABudgetIsForAPlanAndWhatItsProcessMayTakeMore) {
  EXPECT_EQ(to_json(report_)["least_budget_bytes"]["exact"], recomputed_.process_bytes + kSparedBytes);
  EXPECT_TRUE(contains(format_fit(report_), "  exact        301.00 MiB")) << format_fit(report_);
  EXPECT_TRUE(contains(format_no_fit(report_), "expected at least 201.00 MiB")) << format_no_fit(report_);
  report_.budget_bytes = asked_.process_bytes;
  EXPECT_TRUE(contains(fit_page(report_), "too large"));
  report_.budget_bytes = asked_.process_bytes + kSparedBytes;
  EXPECT_FALSE(contains(fit_page(report_), "too large"));
}

TEST_F(FitReportTest, WhatBindsIsOfAPlanThatIsNamed) {
  const std::string moment = "  train: node 5 of 60, matmul in layer 1, backward\n";
  const std::string residents = "    activation of attention ";
  EXPECT_TRUE(contains(format_fit(report_),
                       "What binds, in the fastest plan that does not fit\n  400.00 MiB, as asked for\n" +
                           moment + residents));
  const std::string page = fit_page(report_);
  EXPECT_TRUE(contains(page, "What binds, in the fastest plan that does not fit"));
  EXPECT_TRUE(
      contains(page, "At train: node 5 of 60, matmul in layer 1, backward, of 400.00 MiB: as asked for."));
  EXPECT_TRUE(contains(page, "weight of attention"));
  const nlohmann::json binding = to_json(report_)["binding"];
  EXPECT_EQ(binding["of"]["added_flags"], nlohmann::json::array());
  EXPECT_EQ(binding["of"]["process_peak_bytes"], asked_.process_bytes);
  EXPECT_EQ(binding["of"]["fits"], false);
  EXPECT_EQ(binding["run_phase"], "train");
  EXPECT_EQ(binding["residents"][1]["name"], "weight of attention");

  report_.binding.run_phase = "evaluate";
  result_.bound = recomputed_;
  EXPECT_TRUE(
      contains(format_fit(report_),
               "What binds, in the chosen plan\n  300.00 MiB, --gradient_checkpointing\n  evaluate: node 5"));
  EXPECT_EQ(to_json(report_)["binding"]["of"]["fits"], true);
  report_.chosen = 1;
  EXPECT_TRUE(contains(format_fit(report_), "What binds, in another plan that fits\n"));
  EXPECT_TRUE(contains(format_why(report_), "What binds, in the run as asked for\n"));
}

TEST_F(FitReportTest, TheBudgetAndTheChosenPlanAreInTheFrontier) {
  EXPECT_TRUE(contains(format_fit(report_),
                       "      1.000 s   400.00 MiB  exact      as asked for\n"
                       "                320.00 MiB  the budget: what is below fits\n"
                       ">     1.200 s   300.00 MiB  exact      --gradient_checkpointing\n"
                       "      1.500 s   200.00 MiB  rounding   --per_device_train_batch_size 1\n"));
  const std::string page = fit_page(report_);
  const std::string table = page.substr(page.find("Less memory takes longer"));
  size_t at = 0;
  for (const char* cell : {"budget of 320.00 MiB", ">too large<", ">chosen<", ">fits<"}) {
    at = table.find(cell, at);
    EXPECT_NE(at, std::string::npos) << cell;
  }
  // One that counts as fast as a row of the frontier, and changes less.
  report_.best = {made_up_plan({"--accumulation_order", "layer_major"}, 250, 1.51, {MathsChange::kRounding})};
  EXPECT_TRUE(contains(format_fit(report_),
                       "      1.200 s   300.00 MiB  exact      --gradient_checkpointing\n"
                       ">     1.510 s   250.00 MiB  rounding   --accumulation_order layer_major\n"
                       "      1.500 s   200.00 MiB"));
  report_.budget_bytes = 1 << 20;
  EXPECT_TRUE(contains(format_fit(report_), "1.00 MiB  the budget: what is below fits\n\n")) << "nothing is";
}

TEST_F(FitReportTest, TechniquesHaveSeconds) {
  EXPECT_TRUE(contains(
      format_fit(report_),
      "  recompute every layer                      300.00 MiB    -100.00 MiB      1.200 s    +20.0%\n"));
  EXPECT_TRUE(
      contains(format_fit(report_),
               "  as asked for                               400.00 MiB                     1.000 s\n"));
}

TEST_F(FitReportTest, TheWholeRunStandsBesideTheEpoch) {
  EXPECT_TRUE(
      contains(format_fit(report_),
               "  epoch                no less than 2:00\n  run of 3 epochs      no less than 6:00\n"));
  EXPECT_TRUE(contains(fit_page(report_), "no less than 6:00"));
  EXPECT_NEAR(to_json(report_)["chosen"]["run_seconds"].get<double>(), 360, 1e-9);
  report_.measured = {{2.4, 0}};
  report_.price_per_hour = 60;
  report_.epochs = 0.5;
  EXPECT_TRUE(contains(format_fit(report_),
                       "  epoch                4:00, 4.00 at the price given\n"
                       "  run of 0.5 epochs    2:00, 2.00 at the price given\n"));
  EXPECT_NEAR(to_json(report_)["chosen"]["run_price"].get<double>(), 2, 1e-9);
  report_.epochs = 1234.5;
  EXPECT_TRUE(contains(format_fit(report_), "  run of 1234 epochs "));
  report_.samples_in_epoch = 0;
  EXPECT_EQ(format_fit(report_).find("epoch"), std::string::npos);
}

// The epoch and the run are as uncertain as the step, unless it was measured.
TEST_F(FitReportTest, WhatIsCalibratedHasItsErrorEverywhere) {
  report_.best[0].time.is_calibrated = true;
  report_.best[0].time.error = 0.034;
  const std::string text = format_fit(report_);
  for (const char* row : {"  step                 1.200 s ± 4 % (calibrated)",
                          "  epoch                2:00 ± 4 %\n", "  run of 3 epochs      6:00 ± 4 %\n"})
    EXPECT_TRUE(contains(text, row));
  EXPECT_TRUE(contains(fit_page(report_), "6:00 ± 4 %"));
  report_.measured = {{2.4, 0}};
  EXPECT_TRUE(contains(format_fit(report_), "  epoch                4:00\n"));
  for (PlannedCandidate& plan : result_.frontier) {
    plan.time.is_calibrated = true;
    plan.time.error = 0.034;
  }
  result_.frontier[2].time.error = 0.12;
  EXPECT_TRUE(contains(format_fit(report_),
                       "         step                 peak  changes    flags\n"
                       "      1.000 s ± 4 %     400.00 MiB  exact      as asked for\n"
                       "                        320.00 MiB  the budget: what is below fits\n"
                       ">     1.200 s ± 4 %     300.00 MiB  exact      --gradient_checkpointing\n"
                       "      1.500 s ± 12 %    200.00 MiB  rounding   --per_device_train_batch_size 1\n"))
      << format_fit(report_);
  EXPECT_TRUE(contains(fit_page(report_), "1.5 s ± 12 %")) << fit_page(report_);
}

TEST_F(FitReportTest, WhatTheTierAboveWouldBuyIsShown) {
  EXPECT_FALSE(contains(format_fit(report_), "With --allow"));
  EXPECT_FALSE(contains(fit_page(report_), "With --allow"));
  result_.above = half_;
  EXPECT_TRUE(contains(format_fit(report_), "\nWith --allow numerics\n"));
  std::string page = fit_page(report_);
  const size_t heading = page.find("With --allow numerics<");
  ASSERT_NE(heading, std::string::npos);
  EXPECT_TRUE(contains(page.substr(heading), "150.00 MiB"));
  EXPECT_TRUE(contains(page.substr(heading), "--bf16"));
  EXPECT_FALSE(contains(page, "cut short"));
  result_.above_is_cut_short = true;
  EXPECT_TRUE(contains(fit_page(report_), "cut short"));
}

// Of several ranks: what goes over which link, and the step with the messages beside the computation and without that.
TEST_F(FitReportTest, WhatRanksSendIsToldByLink) {
  EXPECT_FALSE(contains(format_fit(report_), "sent in a step"));
  EXPECT_FALSE(to_json(report_)["chosen"].contains("sent_by_link"));
  StepTime& time = report_.best[0].time;
  time.sent = StepTraffic{
      .kinds = {{.name = "all_reduce", .within_host_bytes = 1 << 20, .between_hosts_bytes = 2 << 20}},
      .ranks_of_host = 4,
      .has_several_hosts = true,
      .rank = 3};
  time.lacks_messages = true;
  EXPECT_TRUE(
      contains(format_fit(report_),
               "  sent in a step       1.00 MiB within its host and 2.00 MiB between hosts by rank 3, "));
  EXPECT_TRUE(contains(format_fit(report_), "\nTo train:\n  shoehorn train "));
  report_.best[0].run.arguments.world_size = 4;
  EXPECT_TRUE(contains(format_fit(report_), "\nTo train:\n  shoehorn launch --nproc_per_node 4 train "));
  EXPECT_TRUE(contains(fit_page(report_), "2.00 MiB between hosts by rank 3"));
  EXPECT_TRUE(to_json(report_)["chosen"]["messages"].is_null()) << "nobody knows the link";
  time.messages = MessageTime{.seconds = 0.5, .computing_seconds = 1, .step_seconds = 1.2};
  const nlohmann::json chosen = to_json(report_)["chosen"];
  EXPECT_EQ(chosen["sent_in_step"]["all_reduce"]["between_hosts_bytes"], 2 << 20);
  EXPECT_EQ(chosen["sent_by_link"]["rank"], 3);
  EXPECT_EQ(chosen["messages"]["step_seconds_without_overlap"], 1.5);
}

TEST_F(FitReportTest, MeasuringIsOfferedWhereStepsCanBeRun) {
  EXPECT_TRUE(contains(format_fit(report_), "; --verify 3 measures\n"));
  report_.may_measure = false;
  EXPECT_FALSE(contains(format_fit(report_), "--verify"));
}

TEST_F(FitReportTest, WhatCouldNotBeRunIsNamed) {
  report_.not_measured = {{"[x] expected a, got b", 1}};
  const std::string text = format_fit(report_);
  EXPECT_TRUE(
      contains(text, "  not measured         --per_device_train_batch_size 1: [x] expected a, got b\n"));
  EXPECT_EQ(text.find("--verify 3 measures"), std::string::npos);
  EXPECT_TRUE(
      contains(fit_page(report_), "Not measured: --per_device_train_batch_size 1: [x] expected a, got b"));
  const nlohmann::json json = to_json(report_)["not_measured"];
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["added_flags"][1], "1");
  EXPECT_EQ(json[0]["reason"], "[x] expected a, got b");
}

// Only tiers that reach less and that neither --allow nor --fix decides.
TEST_F(FitReportTest, WhereNothingFitsTheTiersThatHelpAreNamed) {
  using enum MathsChange;
  report_.chosen.reset();
  report_.budget_bytes = 1 << 20;
  const auto offers = [&](const std::set<MathsChange>& allowed) {
    report_.allowed = allowed;
    const std::string text = format_no_fit(report_);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_TRUE(
      offers({kExact, kRounding}).ends_with("; give more, or allow more (--allow numerics,adapters)"));
  EXPECT_TRUE(offers({kExact}).ends_with("(--allow numerics,adapters)")) << "with rounding in it";
  EXPECT_TRUE(offers({kExact, kRounding, kNumerics}).ends_with("(--allow numerics,adapters)"));
  EXPECT_TRUE(offers({kExact, kRounding, kNumerics, kAdapters}).ends_with("plans fits; give more"));
  result_.least[kAdapters] = half_;  // --fix adapters
  EXPECT_TRUE(offers({kExact, kRounding}).ends_with("(--allow numerics)"));
  result_.least[kNumerics] = result_.least[kAdapters] = split_;
  EXPECT_TRUE(offers({kExact, kRounding}).ends_with("plans fits; give more"));
  result_.frontier.pop_back();
  EXPECT_TRUE(offers({kExact}).ends_with("(--allow rounding)"));
}

// What is allowed already stays allowed.
TEST_F(FitReportTest, TheNextTierIsNamedWithThoseThatAreAllowed) {
  result_.above = half_;
  EXPECT_TRUE(contains(format_fit(report_), "With --allow numerics\n"));
  result_.above = adapted_;
  report_.allowed.insert(MathsChange::kNumerics);
  EXPECT_TRUE(contains(format_fit(report_), "With --allow numerics,adapters\n"));
}

}  // namespace
}  // namespace shoehorn
