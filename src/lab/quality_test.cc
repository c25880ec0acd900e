// Verdicts, table, JSON, page and exit code of results made by hand.
#include "lab/quality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "exec/backends.h"
#include "lab/quality_page.h"
#include "lab/quality_text.h"
#include "report/plot.h"

namespace shoehorn {
namespace {

TrainingRun run_of(int64_t seed, double accuracy, std::vector<double> losses, double seconds = 10) {
  TrainingRun run;
  run.outcome = RunOutcome::kMeasured;
  run.seed = seed;
  run.eval_accuracy = accuracy;
  run.eval_loss = 1 - accuracy;
  run.step_losses = std::move(losses);
  run.train_seconds = seconds;
  run.samples_per_second = 100 / seconds;
  run.measured_bytes = 400 << 20;
  run.predicted_bytes = 401 << 20;
  return run;
}

TrainingRun run_not_measured(int64_t seed, RunOutcome outcome, const std::string& reason) {
  TrainingRun run;
  run.seed = seed;
  run.outcome = outcome;
  run.reason = reason;
  return run;
}

// The reference has accuracies 0.80, 0.82 and 0.84; every other rung one run, with the reference's first
// losses.
QualityResults results_of(const std::vector<std::string>& names) {
  QualityResults results;
  results.options.title = "a task";
  results.options.rungs = choose_quality_rungs({}, names);
  for (const QualityRung& rung : results.options.rungs)
    results.rungs.push_back({rung, {run_of(42, 0.80, {2, 1.5, 1.25, 1})}});
  results.rungs[0].runs.push_back(run_of(43, 0.82, {2.1, 1.6, 1.35, 1}));
  results.rungs[0].runs.push_back(run_of(44, 0.84, {2.2, 1.7, 1.45, 1}));
  return results;
}

TrainingRun& first_run(QualityResults& results, const std::string& name) {
  const auto found = std::find_if(results.rungs.begin(), results.rungs.end(),
                                  [&name](const QualityResult& rung) { return rung.rung.name == name; });
  return found->runs[0];
}

std::string verdict(const QualityResults& results, const std::string& name) {
  return verdict_of(results, results.named(name));
}

TEST(QualityTest, LosesBeyondTheSpreadOfTheReference) {
  QualityResults results = results_of({"bf16", "sgd", "lion"});
  first_run(results, "bf16").eval_accuracy = 0.78;
  first_run(results, "sgd").eval_accuracy = 0.77;
  first_run(results, "lion").eval_accuracy = 0.9;
  EXPECT_EQ(verdict(results, "reference"), "");
  EXPECT_EQ(verdict(results, "bf16"), "") << "0.02 below the lowest, within two standard errors of 0.0231";
  EXPECT_EQ(verdict(results, "sgd"), "loses accuracy");
  EXPECT_EQ(verdict(results, "lion"), "");
  EXPECT_EQ(exit_code_of(results), 0) << "also where a setting loses";
}

TEST(QualityTest, EveryBitIsEveryBitOfEachSeed) {
  QualityResults results = results_of({"checkpointing"});
  ASSERT_TRUE(agreement_of(results, results.named("checkpointing")).has_value());
  EXPECT_TRUE(agreement_of(results, results.named("checkpointing"))->is_every_bit);
  EXPECT_EQ(verdict(results, "checkpointing"), "");
  const auto expect_broken = [&](const QualityResults& changed) {
    EXPECT_EQ(verdict(changed, "checkpointing"), "breaks its promise");
    EXPECT_EQ(exit_code_of(changed), 1);
  };
  QualityResults last_step = results;
  first_run(last_step, "checkpointing").step_losses.back() = std::nextafter(1.0, 2.0);
  expect_broken(last_step);
  QualityResults shorter = results;
  first_run(shorter, "checkpointing").step_losses.pop_back();
  expect_broken(shorter);
  QualityResults evaluation = results;
  first_run(evaluation, "checkpointing").eval_loss =
      std::nextafter(first_run(results, "checkpointing").eval_loss, 1);
  expect_broken(evaluation);
  QualityResults second_seed = results;
  second_seed.rungs[1].runs.push_back(run_of(43, 0.82, {2.1, 1.6, 1.35, 1.1}));
  expect_broken(second_seed);
}

TEST(QualityTest, RoundingMayGrowAfterTheFirstSteps) {
  QualityResults results = results_of({"accumulation"});
  first_run(results, "accumulation").step_losses = {2.00001, 1.5, 1.25, 1.2};
  const auto near = agreement_of(results, results.named("accumulation"));
  ASSERT_TRUE(near.has_value());
  EXPECT_FALSE(near->is_every_bit);
  EXPECT_NEAR(near->first_steps, 5e-6, 1e-9);
  EXPECT_TRUE(near->is_kept);
  first_run(results, "accumulation").step_losses = {2, 1.5, 1.2502, 1};
  EXPECT_EQ(verdict(results, "accumulation"), "breaks its promise");
  first_run(results, "accumulation").step_losses = {2, std::nan(""), 1.25, 1};
  EXPECT_EQ(verdict(results, "accumulation"), "breaks its promise") << "a NaN is not near";
  EXPECT_FALSE(agreement_of(results, results.reference()).has_value());
}

TEST(QualityTest, WhatWasNotMeasuredIsShown) {
  QualityResults results = results_of({"bf16", "fp16"});
  EXPECT_EQ(format_quality(results).find("shoehorn's fp16 products: as fp32 panels") == std::string::npos,
            this_machine().has_products_of(DType::kF16));
  first_run(results, "fp16") = run_not_measured(42, RunOutcome::kDoesNotFit, "[memory] expected less");
  EXPECT_EQ(verdict(results, "fp16"), "does not fit");
  EXPECT_EQ(exit_code_of(results), 0);
  const std::string text = format_quality(results);
  EXPECT_NE(text.find("does not fit"), std::string::npos);
  EXPECT_EQ(text.find("fp16 products"), std::string::npos);
  EXPECT_NE(text.find("fp16, seed 42: [memory] expected less"), std::string::npos);
  EXPECT_EQ(to_json(results)["rungs"][2]["runs"][0]["reason"], "[memory] expected less");
  first_run(results, "fp16").outcome = RunOutcome::kFailed;
  EXPECT_EQ(exit_code_of(results), 1);

  QualityResults none = results_of({"bf16"});
  none.rungs[0].runs[1] = run_not_measured(43, RunOutcome::kDoesNotFit, "[memory] expected less");
  EXPECT_EQ(exit_code_of(none), 2);
  EXPECT_EQ(verdict(none, "bf16"), "");
  EXPECT_FALSE(format_quality(none).empty());
  EXPECT_NE(quality_page(none).find("does not fit"), std::string::npos);
}

TEST(QualityTest, TableAndJson) {
  QualityResults results = results_of({"checkpointing", "sgd"});
  results.options.flags = {"--num_train_epochs", "2"};
  first_run(results, "sgd") = run_of(42, 0.5, {2, 1.9, 1.9, 1.8}, 5);
  const std::string text = format_quality(results);
  EXPECT_NE(text.find("  time x  memory x  "), std::string::npos) << text;
  std::istringstream lines(text);
  std::string sgd;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  SGD", 0) == 0 && sgd.empty()) sgd = line;
  }
  std::istringstream words(sgd.substr(sgd.find("0.5")));
  std::vector<std::string> cells;
  for (std::string word; words >> word;) cells.push_back(word);
  EXPECT_EQ(cells, (std::vector<std::string>{"0.5000", "-", "0.5000", "5.0", "20.0", "400", "401", "0.50",
                                             "1.00", "loses", "accuracy"}));
  EXPECT_NE(text.find("accuracy 0.8000 to 0.8400, standard deviation 0.0200"), std::string::npos);
  EXPECT_NE(text.find("checkpointing equals batch 8, fp32, AdamW in every bit of its losses"),
            std::string::npos);
  EXPECT_NE(text.find("all share: --num_train_epochs 2"), std::string::npos);

  const nlohmann::ordered_json json = to_json(results);
  EXPECT_EQ(json["rungs"][0]["eval_accuracy"]["low"], 0.80);
  EXPECT_NEAR(json["rungs"][0]["eval_accuracy"]["deviation"].get<double>(), 0.02, 1e-12);
  EXPECT_EQ(json["rungs"][0]["runs"].size(), 3U);
  EXPECT_EQ(json["rungs"][1]["equals"]["is_every_bit"], true);
  EXPECT_EQ(json["rungs"][2]["loses_accuracy"], true);
  EXPECT_EQ(json["rungs"][2]["verdict"], "loses accuracy");
}

TEST(QualityTest, PageHasEveryRungInBothPlots) {
  QualityResults results = results_of({"bf16", "sgd"});
  first_run(results, "sgd").eval_accuracy = 0.5;
  const std::string page = quality_page(results);
  const auto count = [&page](const std::string& piece) {
    int64_t found = 0;
    for (size_t at = page.find(piece); at != std::string::npos; at = page.find(piece, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<figure>"), 2);
  constexpr int64_t kDrawings = std::size(kPlotWidths);
  EXPECT_EQ(count("class=\"dot c0\""), 4 * kDrawings);
  EXPECT_EQ(count("class=\"dot c1\""), 2 * kDrawings) << "what loses has a colour of its own";
  EXPECT_GE(count("SGD, momentum 0.9"), 4);
}

TEST(QualityTest, FlagsOfARun) {
  const QualityResults results = results_of({"bf16"});
  QualityOptions options = results.options;
  options.flags = {"--max_steps", "3"};
  const std::vector<std::string> words = train_flags(options, options.rungs[1], 43);
  EXPECT_EQ(std::vector<std::string>(words.begin(), words.begin() + 5),
            (std::vector<std::string>{"--max_steps", "3", "--bf16", "--seed", "43"}));
}

}  // namespace
}  // namespace shoehorn
