#include "lab/run_comparison.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/error_testing.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "lab/run_comparison_page.h"
#include "lab/run_comparison_text.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// What a run of 4 steps leaves, with an evaluation every 2.
void write_run(const fs::path& directory, double accuracy, double learning_rate) {
  TrainerState state;
  state.global_step = state.max_steps = 4;
  state.log_history = {
      {{"loss", 0.9}, {"step", int64_t{2}}, {"epoch", 0.5}},
      {{"eval_loss", 0.8}, {"eval_accuracy", accuracy}, {"step", int64_t{2}}, {"epoch", 0.5}},
      {{"loss", 0.7}, {"step", int64_t{4}}, {"epoch", 1.0}},
      {{"eval_loss", 0.7}, {"eval_accuracy", accuracy - 0.1}, {"step", int64_t{4}}, {"epoch", 1.0}}};
  fs::create_directories(directory);
  save_trainer_state(state, directory / "trainer_state.json");
  write_json_atomic(directory / "all_results.json",
                    nlohmann::json{{"eval_accuracy", accuracy},
                                   {"train_runtime", 75.5},
                                   {"train_loss", 0.8},
                                   {"memory_process_measured_bytes", 3 << 20}});
  write_json_atomic(directory / "training_args.json",
                    nlohmann::json{{"learning_rate", learning_rate},
                                   {"seed", 42},
                                   {"eval_steps", learning_rate > 1.5e-4 ? 900.0 : 800.0},
                                   {"output_dir", directory.string()},
                                   {"bf16", false}});
}

bool has_row(const std::string& text, const std::vector<std::string>& cells) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    size_t at = 0;
    bool has_all = true;
    for (const std::string& cell : cells) {
      at = line.find(cell, at);
      has_all = has_all && at != std::string::npos;
      if (!has_all) break;
    }
    if (has_all) return true;
    begin = end + 1;
  }
  return false;
}

TEST(RunComparison, AResultThatIsNoNumberIsRefused) {
  const TestDirectory directory;
  write_run(directory.path() / "a", 0.8, 1e-4);
  write_run(directory.path() / "b", 0.9, 2e-4);
  write_json_atomic(directory.path() / "b" / "all_results.json", nlohmann::json{{"train_loss", "low"}});
  const RunComparison comparison =
      read_runs({(directory.path() / "a").string(), (directory.path() / "b").string()});
  const std::string refusal = message_of<UserError>([&] { format_comparison(comparison); });
  EXPECT_NE(refusal.find("b/all_results.json] expected 'train_loss' to be a number, got \"low\""),
            std::string::npos)
      << refusal;
}

TEST(RunComparison, ResultsStandBesideEachOtherAndOnlyDifferencesOfArguments) {
  const TestDirectory directory;
  write_run(directory.path() / "a", 0.8, 1e-4);
  write_run(directory.path() / "b", 0.9, 2e-4);
  const RunComparison comparison =
      read_runs({(directory.path() / "a").string(), (directory.path() / "b").string() + "/"});
  const std::string text = format_comparison(comparison);
  EXPECT_TRUE(has_row(text, {"result", "a", "b"})) << text;
  EXPECT_TRUE(has_row(text, {"eval_accuracy", "0.8", "0.9"})) << text;
  EXPECT_TRUE(has_row(text, {"eval_accuracy, best", "0.8 at step 2", "0.9 at step 2"})) << text;
  EXPECT_TRUE(has_row(text, {"eval_loss", "0.7", "0.7"})) << "of the log, where the results have none\n"
                                                          << text;
  EXPECT_TRUE(has_row(text, {"eval_loss, best", "0.7 at step 4", "0.7 at step 4"})) << text;
  EXPECT_TRUE(has_row(text, {"training time", "75.5 s", "75.5 s"})) << text;
  EXPECT_TRUE(has_row(text, {"peak of the process", "3.00 MiB", "3.00 MiB"})) << text;
  EXPECT_TRUE(has_row(text, {"learning_rate", "0.0001", "0.0002"})) << text;
  EXPECT_TRUE(has_row(text, {"eval_steps", " 800", " 900"})) << text;
  EXPECT_EQ(text.find(".0 "), std::string::npos) << text;
  for (const char* same : {"seed", "bf16", "output_dir"})
    EXPECT_EQ(text.find(same), std::string::npos) << text;

  const nlohmann::ordered_json json = to_json(comparison);
  EXPECT_EQ(json["runs"][1]["name"], "b");
  EXPECT_EQ(json["runs"][1]["best"]["eval_accuracy"]["step"], 2);
  EXPECT_EQ(json["runs"][1]["best"]["eval_loss"]["step"], 4);
  EXPECT_EQ(json["differing_arguments"]["learning_rate"], nlohmann::json({1e-4, 2e-4}));
  EXPECT_EQ(json["differing_arguments"].size(), 2U);

  const std::string page = comparison_page(comparison);
  for (const char* part :
       {"Training loss", "eval_accuracy", "Peak of the process", "Training time", "learning_rate"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(RunComparison, AnEmptyTextIsNothingAndResumingIsNoDifference) {
  const TestDirectory directory;
  for (const char* name : {"a", "b"}) {
    write_run(directory.path() / name, 0.8, 1e-4);
    const bool is_second = name[0] == 'b';
    write_json_atomic(directory.path() / name / "training_args.json",
                      nlohmann::json{{"metric_for_best_model", is_second ? "f1" : ""},
                                     {"resume_from_checkpoint", is_second ? "true" : ""}});
  }
  const std::string text =
      format_comparison(read_runs({(directory.path() / "a").string(), (directory.path() / "b").string()}));
  EXPECT_TRUE(has_row(text, {"metric_for_best_model", " - ", "f1"})) << text;
  EXPECT_EQ(text.find("resume_from_checkpoint"), std::string::npos) << text;
}

// One argument in two spellings is no difference: defaults written or not, numbers and booleans as texts, other names of a
// flag or a value, paths of one file.
TEST(RunComparison, AnotherSpellingIsNoDifference) {
  const TestDirectory directory;
  directory.write("train.csv", "text,label\n");
  for (const char* name : {"a", "b"}) write_run(directory.path() / name, 0.8, 1e-4);
  write_json_atomic(directory.path() / "a/training_args.json",
                    nlohmann::json{{"learning_rate", "5e-5"},
                                   {"optim", "adamw_torch"},
                                   {"train_file", (directory.path() / "train.csv").string()},
                                   {"evaluation_strategy", "steps"},
                                   {"logging_steps", 20},
                                   {"bf16", "true"},
                                   {"of_the_future", 1},
                                   {"output_dir", (directory.path() / "a").string()}});
  write_json_atomic(directory.path() / "b/training_args.json",
                    nlohmann::json{{"weight_decay", 0},
                                   {"seed", 42},
                                   {"train_file", "x/../train.csv"},
                                   {"eval_strategy", "steps"},
                                   {"eval_steps", 20.0},
                                   {"logging_steps", 20.0},
                                   {"mixed_precision", "bf16"},
                                   {"of_the_future", 1},
                                   {"output_dir", "b"}});
  const RunComparison comparison =
      read_runs({(directory.path() / "a").string(), (directory.path() / "b").string()});
  EXPECT_TRUE(comparison_arguments(comparison).rows.empty()) << format_comparison(comparison);
  EXPECT_NE(comparison_page(comparison).find("No argument differs"), std::string::npos);
}

// The run's own metric says what is better; a best value far from the end is shown beside the last.
TEST(RunComparison, TheBestValueStandsBesideTheLast) {
  const TestDirectory directory;
  for (const char* name : {"a", "b"}) {
    write_run(directory.path() / name, 0.8, 1e-4);
    fs::remove(directory.path() / name / "all_results.json");
    write_json_atomic(directory.path() / name / "training_args.json",
                      nlohmann::json{{"metric_for_best_model", "accuracy"}, {"greater_is_better", false}});
  }
  const std::string text =
      format_comparison(read_runs({(directory.path() / "a").string(), (directory.path() / "b").string()}));
  EXPECT_TRUE(has_row(text, {"eval_accuracy, best", "0.7 at step 4"})) << text;
}

TEST(RunComparison, WhatIsMissingIsNamed) {
  const TestDirectory directory;
  write_run(directory.path() / "whole", 0.8, 1e-4);
  // A run that goes on has its state and its arguments in checkpoints only.
  write_run(directory.path() / "running/checkpoint-2", 0.7, 1e-4);
  fs::remove(directory.path() / "running/checkpoint-2/all_results.json");
  write_run(directory.path() / "other/whole", 0.8, 1e-4);
  fs::remove(directory.path() / "other/whole/trainer_state.json");
  fs::remove(directory.path() / "other/whole/training_args.json");
  std::vector<std::string> runs;
  for (const char* name : {"whole", "running", "other/whole"})
    runs.push_back((directory.path() / name).string());
  const RunComparison comparison = read_runs(runs);
  const std::string text = format_comparison(comparison);
  EXPECT_NE(text.find("running has no all_results.json: only what its log has"), std::string::npos) << text;
  EXPECT_NE(text.find("other/whole has no trainer_state.json: no curves"), std::string::npos) << text;
  EXPECT_NE(text.find("other/whole has no training_args.json"), std::string::npos) << text;
  EXPECT_NE(text.find("No argument of " + runs[0] +
                      ", running differs, apart from where the runs write; those of " + runs[2] +
                      " are not known."),
            std::string::npos)
      << text;
  EXPECT_NE(format_comparison(read_runs({runs[0], runs[2]}))
                .find("Arguments are not compared: those of " + runs[2] + " are not known."),
            std::string::npos);
  EXPECT_EQ(comparison.runs[0].name, runs[0]) << "the directories of two have one name";
  EXPECT_EQ(final_value(comparison.runs[1], "eval_loss"), 0.7);
  EXPECT_EQ(final_value(comparison.runs[1], "train_runtime"), std::nullopt);
  EXPECT_NE(comparison_page(comparison).find("Training loss"), std::string::npos);
}

TEST(RunComparison, RefusesWhatIsNoRun) {
  const TestDirectory directory;
  write_run(directory.path() / "a", 0.8, 1e-4);
  fs::create_directories(directory.path() / "empty");
  const std::string a = (directory.path() / "a").string();
  EXPECT_THROW(read_runs({a}), UserError);
  EXPECT_THROW(read_runs({a, (directory.path() / "absent").string()}), UserError);
  EXPECT_THROW(read_runs({a, (directory.path() / "empty").string()}), UserError);
  directory.write("a/all_results.json", "[]");
  EXPECT_THROW(read_runs({a, a}), UserError);
}

}  // namespace
}  // namespace shoehorn
