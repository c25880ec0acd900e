#include "train/live_reports.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "io/json_file.h"
#include "io/test_directory.h"
#include "train/test_support.h"
#include "train/trainer_callback.h"
#include "train/writing_pace.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

TEST(LiveReports, TagsAreThoseOfTheTrainersCallback) {
  EXPECT_EQ(tensorboard_tag("loss"), "train/loss");
  EXPECT_EQ(tensorboard_tag("train_runtime"), "train/train_runtime");
  EXPECT_EQ(tensorboard_tag("eval_loss"), "eval/loss");
  EXPECT_EQ(tensorboard_tag("test_f1"), "test/f1");
  EXPECT_EQ(tensorboard_tag("evaluation"), "train/evaluation");
}

TrainingArguments reporting(const fs::path& output, std::vector<std::string> report_to) {
  TrainingArguments args;
  args.output_dir = output.string();
  args.report_to = std::move(report_to);
  return args;
}

TEST(LiveReports, WritesNothingUnlessAsked) {
  const TestDirectory directory;
  LiveReports reporter(reporting(directory.path() / "out", {}), "", 0);
  reporter.log({{"loss", 1.5}, {"step", int64_t{1}}});
  EXPECT_FALSE(fs::exists(directory.path() / "out"));
}

TEST(LiveReports, EachEntryIsALineAtOnce) {
  const TestDirectory directory;
  LiveReports reporter(reporting(directory.path(), {"jsonl"}), "", 0);
  reporter.log({{"loss", 1.5}, {"step", int64_t{1}}});
  EXPECT_EQ(read_text_file(directory.path() / "log.jsonl"), "{\"loss\": 1.5, \"step\": 1}\n");
  reporter.log({{"loss", std::nan("")}, {"step", int64_t{2}}});
  EXPECT_EQ(read_text_file(directory.path() / "log.jsonl"),
            "{\"loss\": 1.5, \"step\": 1}\n{\"loss\": NaN, \"step\": 2}\n");
}

TEST(LiveReports, AResumedRunReplacesWhatWasBeyondItsStep) {
  const TestDirectory directory;
  const fs::path path = directory.path() / "log.jsonl";
  const TrainingArguments args = reporting(directory.path(), {"jsonl"});
  directory.write("log.jsonl", "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4, \"lo");
  LiveReports(args, "", 2).log({{"step", int64_t{3}}, {"loss", 7.0}});
  EXPECT_EQ(read_text_file(path), "{\"step\": 1}\n{\"step\": 2}\n{\"loss\": 7.0, \"step\": 3}\n");
  directory.write("log.jsonl", "{\"step\": 1}\nno JSON\n{\"step\": 2}\n");
  EXPECT_THROW(LiveReports(args, "", 2), UserError);
  for (const char* line : {"{\"loss\": 1}\n", "{\"step\": 18446744073709551615}\n", "{\"step\": 1.0}\n"}) {
    directory.write("log.jsonl", line);
    EXPECT_THROW(LiveReports(args, "", 2), UserError) << line;
  }
  LiveReports(args, "", 0);
  EXPECT_EQ(read_text_file(path), "") << "a run from the start begins the file anew";
}

TEST(LiveReports, EventFilesLieWhereTheTrainerPutsThem) {
  const TestDirectory directory;
  TrainingArguments args = reporting(directory.path(), {"tensorboard"});
  LiveReports first(args, "{\"hidden_size\": 24}", 0);
  const std::vector<std::string> runs = list_directory(directory.path() / "runs");
  ASSERT_EQ(runs.size(), 1U);
  args.logging_dir = (directory.path() / "mine").string();
  LiveReports second(args, "", 0);
  LiveReports resumed(args, "", 3);
  EXPECT_EQ(list_directory(directory.path() / "mine").size(), 2U) << "a new file for a resumed run";
}

// The reports of a whole run.
TEST(Trainer, ReportsTheRun) {
  const TestDirectory directory;
  TrainingArguments args = quiet_arguments(8);
  args.max_steps = 4;
  args.output_dir = directory.path().string();
  args.report_to = {"all"};
  args.run_name = "a <run>";
  args.eval_strategy = "steps";
  args.eval_steps = 2;
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 5), tiny_samples(9, 6));
  const TrainOutput output = trainer.train();
  const double waited = metric_number(output.metrics.at("train_data_wait_share"));
  EXPECT_GT(waited, 0);
  EXPECT_LT(waited, 1);
  const std::string html = read_text_file(directory.path() / "report.html");
  for (const char* part :
       {"<h1>a &lt;run&gt;</h1>", "Learning rate", ">accuracy</th>", "peak ", "By role", "logging_steps",
        "fuse_update", "Ended: step 4 of 4", "<dt>accuracy</dt>", "<dt>best step</dt>", ">best, step ",
        "class=\"dot c1\"", ">Metrics of the evaluations</text>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("http-equiv"), std::string::npos) << "a run that is over is not watched";
  std::string lines = read_text_file(directory.path() / "log.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'),
            static_cast<int64_t>(trainer.state().log_history.size()));
  EXPECT_TRUE(fs::exists(directory.path() / "runs"));
}

// Keeps what report.html shows while the run goes on.
class Watcher : public TrainerCallback {
 public:
  explicit Watcher(fs::path page) : page_(std::move(page)) {}
  void on_step_begin(const TrainingArguments&, const TrainerState& state, TrainerControl&) override {
    if (state.global_step == 0) first_ = read_text_file(page_);
  }
  void on_save(const TrainingArguments&, const TrainerState&, TrainerControl&) override {
    if (later_.empty()) later_ = read_text_file(page_);
  }

  fs::path page_;
  std::string first_, later_;
};

TEST(Trainer, ARunCanBeWatched) {
  const TestDirectory directory;
  TrainingArguments args = quiet_arguments(8);
  args.max_steps = 4;
  args.output_dir = directory.path().string();
  args.report_to = {"html"};
  args.save_strategy = "steps";
  args.save_steps = 2;
  const BertForSequenceClassification model(tiny_bert());
  std::string lines;
  Trainer trainer(model, args, tiny_samples(28, 5), {},
                  {.on_line = [&lines](const std::string& line) { lines += line + "\n"; }});
  const auto watcher = std::make_shared<Watcher>(directory.path() / "report.html");
  trainer.add_callback(watcher);
  trainer.train();
  EXPECT_NE(lines.find(watcher->page_.string() + ": the page of this run"), std::string::npos) << lines;
  EXPECT_NE(watcher->first_.find("Running: step 0 of 4"), std::string::npos);
  EXPECT_NE(watcher->first_.find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_NE(watcher->later_.find("of 4, about "), std::string::npos) << "the time that the steps left take";
  EXPECT_NE(watcher->later_.find("http-equiv=\"refresh\""), std::string::npos);
  const std::string last = read_text_file(directory.path() / "report.html");
  EXPECT_NE(last.find("Ended: step 4 of 4"), std::string::npos);
  EXPECT_EQ(last.find("http-equiv"), std::string::npos);
}

TEST(WritingPace, WritesSeldomAndTakesLittle) {
  WritingPace pace;
  EXPECT_TRUE(pace.is_due(0));
  pace.written(10, 10.01);
  EXPECT_FALSE(pace.is_due(10.01 + 0.9 * kLeastSecondsBetweenPages));
  EXPECT_TRUE(pace.is_due(10.01 + kLeastSecondsBetweenPages));
  pace.written(20, 22);
  EXPECT_FALSE(pace.is_due(22 + 199));
  EXPECT_TRUE(pace.is_due(22 + 200.001));
}

}  // namespace
}  // namespace shoehorn
