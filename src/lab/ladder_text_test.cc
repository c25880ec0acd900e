// The ladder's table, JSON and exit code, of results made by hand.
#include "lab/ladder_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "exec/backends.h"
#include "lab/ladder_testing.h"
#include "lab/machine_text.h"

namespace shoehorn {
namespace {

std::string line_with(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(start) == 2) return line;
  }
  return "";
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

TEST(LadderText, RelativeToTheFirstThatWasMeasured) {
  const std::string text = format_ladder(ladder_by_hand(false));
  EXPECT_EQ(words_of(line_with(text, "setting")),
            (std::vector<std::string>{"setting", "samples/s", "memory", "MiB", "predicted", "time", "x",
                                      "memory", "x", "first", "step", "s"}));
  EXPECT_EQ(words_of(line_with(text, "1 x 4 accumulation")),
            (std::vector<std::string>{"1", "x", "4", "accumulation", "0.200", "5000", "5002", "1.00", "1.00",
                                      "21.0"}));
  EXPECT_EQ(words_of(line_with(text, "all exact techniques")),
            (std::vector<std::string>{"all", "exact", "techniques", "0.100", "2500", "2502", "2.00", "0.50",
                                      "41.0"}));
  EXPECT_NE(text.find("how many times those of \"1 x 4 accumulation\""), std::string::npos);
  EXPECT_EQ(text.find("HF"), std::string::npos);
}

TEST(LadderText, StagesOfEachRung) {
  const std::string text = format_table(ladder_stages(ladder_by_hand(true)));
  EXPECT_EQ(
      words_of(line_with(text, "memory MiB by stage")),
      (std::vector<std::string>{"memory", "MiB", "by", "stage", "process", "+", "weights,", "planned", "+",
                                "training", "HF", "process", "HF", "+", "weights", "HF", "+", "training"}));
  EXPECT_EQ(
      words_of(line_with(text, "1 x 4 accumulation")),
      (std::vector<std::string>{"1", "x", "4", "accumulation", "50", "1300", "5000", "50", "1300", "10000"}));
  EXPECT_EQ(words_of(line_with(text, "batch 4, fp32, AdamW")),
            (std::vector<std::string>{"batch", "4,", "fp32,", "AdamW", "-", "-", "-", "-", "-", "-"}));
  EXPECT_NE(format_ladder(ladder_by_hand(true)).find(text), std::string::npos);
  EXPECT_EQ(ladder_stages(ladder_by_hand(false)).columns.size(), 4U);
}

// Types that this machine multiplies as they are need no word. What was not measured says nothing.
TEST(LadderText, WhatMultipliesHalfPrecision) {
  LadderResult result = ladder_by_hand(false);
  EXPECT_EQ(format_ladder(result).find("fp16 products"), std::string::npos);
  result.rungs[2].ours = run_measured(30, 4000);
  EXPECT_EQ(format_ladder(result).find("shoehorn's fp16 products: as fp32 panels") == std::string::npos,
            this_machine().has_products_of(DType::kF16));
  EXPECT_EQ(format_ladder(result).find("bf16 products: "), std::string::npos);
  const Rung bf16 = {"bf16", "bf16", {"--bf16"}};
  EXPECT_EQ(half_product_remarks({&bf16}).empty(), this_machine().has_products_of(DType::kBF16));
}

TEST(LadderText, NothingIsDropped) {
  const std::string text = format_ladder(ladder_by_hand(false));
  EXPECT_EQ(words_of(line_with(text, "batch 4, fp32, AdamW (does not fit)")),
            (std::vector<std::string>{"batch", "4,", "fp32,", "AdamW", "(does", "not", "fit)", "-", "-",
                                      "6000", "-", "-", "-"}));
  EXPECT_FALSE(line_with(text, "batch 4, fp16 (not in this version)").empty());
  EXPECT_NE(text.find("batch 4, fp32, AdamW, shoehorn: planned 6000 MiB, available 4000 MiB"),
            std::string::npos);
  EXPECT_NE(text.find("batch 4, fp16, shoehorn: [--fp16] known"), std::string::npos);
  EXPECT_NE(text.find("rungs not asked for: checkpointing, fp16_checkpointing, adafactor"),
            std::string::npos);
  for (const LadderRung& rung : choose_rungs({"batch_4", "accumulation", "fp16", "exact"})) {
    EXPECT_NE(text.find(fmt::format("{}", fmt::join(rung.flags, " "))), std::string::npos) << rung.name;
  }
}

TEST(LadderText, AgainstThePeer) {
  const std::string text = format_ladder(ladder_by_hand(true));
  const std::vector<std::string> row = words_of(line_with(text, "1 x 4 accumulation"));
  EXPECT_EQ(std::vector<std::string>(row.end() - 5, row.end()),
            (std::vector<std::string>{"0.080", "10000", "51.0", "x2.50", "x0.50"}));
  EXPECT_NE(line_with(text, "batch 4, fp16").find("0.073*"), std::string::npos);
  EXPECT_NE(text.find("batch 4, fp16, huggingface: fp32: fp16 is skipped on this device"), std::string::npos);
  EXPECT_NE(
      text.find(
          "all exact techniques, huggingface: without --accumulation_order layer_major --update_in_backward"),
      std::string::npos);
  EXPECT_NE(text.find("batch 4, fp32, AdamW, huggingface: ended by signal 9"), std::string::npos);
}

// Numbers of a column end at the same place.
TEST(LadderText, TheTableAligns) {
  const std::string text = format_ladder(ladder_by_hand(true));
  const std::string title = line_with(text, "setting");
  const size_t end = title.find("samples/s") + std::string("samples/s").size();
  for (const char* setting : {"1 x 4 accumulation", "all exact techniques"}) {
    const std::string line = line_with(text, setting);
    EXPECT_NE(line[end - 1], ' ') << line;
    EXPECT_EQ(line[end], ' ') << line;
  }
}

TEST(LadderText, RungsOfOneProgramAreOneMeasurement) {
  LadderResult result = ladder_by_hand(false);
  for (RungResult& rung : result.rungs) rung.plan.outcome = RunOutcome::kMeasured;
  result.rungs[0].plan.program = "a";
  result.rungs[1].plan.program = "b";
  result.rungs[2].plan.program = "";
  result.rungs[3].plan.program = "b";
  name_same_programs(result);
  EXPECT_EQ(result.rungs[1].same_as, "");
  EXPECT_EQ(result.rungs[2].same_as, "") << "not known";
  EXPECT_EQ(result.rungs[3].same_as, "1 x 4 accumulation");
  const std::string text = format_ladder(result);
  EXPECT_FALSE(line_with(text, "all exact techniques (=)").empty()) << text;
  EXPECT_NE(text.find("is the same program as \"1 x 4 accumulation\": one measurement for both"),
            std::string::npos);
  EXPECT_EQ(to_json(result)["rungs"][3]["same_program_as"], "1 x 4 accumulation");
  EXPECT_FALSE(to_json(result)["rungs"][1].contains("same_program_as"));
}

TEST(LadderText, SpreadOfTheStepsAndWhatIsAlike) {
  LadderResult result = ladder_by_hand(false);
  result.rungs[1].ours.step_samples = {19, 20, 21};
  result.rungs[1].ours.loads = {
      {.average_before = 0.5, .average_after = 2.5, .involuntary_switches = 7, .cpu_share = 0.9}};
  result.rungs[3].ours.step_samples = {20.5, 40, 41};
  const std::string text = format_ladder(result);
  EXPECT_NE(text.find("0.19–0.211 samples/s in 3 steps, too few to know the median"), std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "not told apart from the fastest, \"1 x 4 accumulation\", by these steps: \"all exact techniques\""),
      std::string::npos)
      << text;
  const nlohmann::ordered_json ours = to_json(result)["rungs"][1]["ours"];
  EXPECT_EQ(ours["step_samples"].size(), 3U);
  EXPECT_EQ(ours["step_interval"]["most"], 21);
  EXPECT_EQ(ours["load"][0]["involuntary_switches"], 7);
  result.rungs[3].ours.step_samples = {39, 40, 41};
  EXPECT_EQ(format_ladder(result).find("not told apart"), std::string::npos);
}

TEST(LadderText, Json) {
  const nlohmann::ordered_json json = to_json(ladder_by_hand(true));
  ASSERT_EQ(json["rungs"].size(), 4U);
  EXPECT_EQ(json["effective_batch_size"], 4);
  EXPECT_EQ(json["rungs"][0]["ours"]["outcome"], "does not fit");
  EXPECT_EQ(json["rungs"][0]["plan"]["peak_bytes"], 6000 * kOneMiB);
  EXPECT_EQ(json["rungs"][0]["guide"]["memory_mib"], 14949);
  EXPECT_EQ(json["rungs"][0]["theirs"]["outcome"], "failed");
  EXPECT_EQ(json["rungs"][1]["ratio"]["samples_per_second"], 2.5);
  EXPECT_EQ(json["rungs"][1]["ours"]["memory"]["training_bytes"], 5000 * kOneMiB);
  EXPECT_EQ(json["rungs"][1]["ours"]["memory"]["planned"], nlohmann::ordered_json({"with_weights_bytes"}));
  EXPECT_EQ(json["rungs"][1]["ours"]["first_step_seconds"], 21);
  EXPECT_EQ(json["rungs"][1]["theirs"]["first_step_seconds"], 51);
  EXPECT_EQ(json["rungs"][2]["theirs"]["ran"], "fp32: fp16 is skipped on this device");
  EXPECT_EQ(json["rungs"][3]["ours"]["relative_memory"], 0.5);
  EXPECT_EQ(json["rungs"][3]["theirs"]["left_out"][0], "--accumulation_order");
  EXPECT_FALSE(json["rungs"][2].contains("ratio"));
}

TEST(LadderText, ExitCode) {
  LadderResult result = ladder_by_hand(false);
  EXPECT_EQ(exit_code_of(result), 0);
  result.rungs[3].ours.outcome = RunOutcome::kFailed;
  EXPECT_EQ(exit_code_of(result), 1);
  EXPECT_EQ(exit_code_of(ladder_by_hand(true)), 1);
  for (RungResult& rung : result.rungs) rung.ours = run_not_measured(RunOutcome::kDoesNotFit, "planned more");
  EXPECT_EQ(exit_code_of(result), 2);
  EXPECT_EQ(reference_rung(result), nullptr);
  EXPECT_FALSE(format_ladder(result).empty());
}

}  // namespace
}  // namespace shoehorn
