#include "train/start_checks.h"

#include <gtest/gtest.h>

#include "io/test_directory.h"
#include "train/evaluation.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;

class StartChecks : public testing::Test {
 protected:
  TrainingArguments arguments() const {
    TrainingArguments args = quiet_arguments(8);
    args.output_dir = (directory_.path() / "out").string();
    args.max_steps = 4;
    args.eval_strategy = args.save_strategy = "steps";
    args.eval_steps = args.save_steps = 2;
    return args;
  }

  // What a trainer of these arguments is refused for, before a step.
  std::string refusal(const TrainingArguments& args, Dataset evaluation = tiny_samples(12, 6),
                      TrainerOptions options = {}) {
    int64_t steps = 0;
    std::string message = refusal_of([&] {
      Trainer trainer(model_, args, tiny_samples(28, 5), std::move(evaluation), std::move(options));
      class Count final : public TrainerCallback {
       public:
        explicit Count(int64_t& steps) : steps_(steps) {}
        void on_step_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) override {
          ++steps_;
        }

       private:
        int64_t& steps_;
      };
      trainer.add_callback(std::make_shared<Count>(steps));
      trainer.train();
    });
    EXPECT_TRUE(message.empty() || steps == 0) << message << " came after " << steps << " steps";
    return message;
  }

  const TestDirectory directory_;
  const BertForSequenceClassification model_{tiny_bert()};
};

TEST_F(StartChecks, AMetricThatNoEvaluationHasIsRefusedBeforeTheFirstStep) {
  TrainingArguments args = arguments();
  args.metric_for_best_model = "kappa";
  EXPECT_EQ(
      refusal(args),
      "[metric_for_best_model] expected one of eval_accuracy, eval_f1, eval_f1_macro, eval_f1_micro, eval_f1_weighted, "
      "eval_loss, eval_matthews_correlation, eval_precision, eval_precision_macro, eval_precision_micro, "
      "eval_precision_weighted, eval_recall, eval_recall_macro, eval_recall_micro, eval_recall_weighted, eval_runtime, "
      "eval_samples_per_second, eval_steps_per_second, got 'eval_kappa'");
  args.metric_for_best_model = "acuracy";
  EXPECT_TRUE(contains(refusal(args), "did you mean eval_accuracy?"));
  for (const char* known : {"accuracy", "eval_f1", "loss", "runtime", "mcc", "f1_macro", "recall_LABEL_1"}) {
    args.metric_for_best_model = known;
    EXPECT_EQ(refusal(args), "") << known;
    fs::remove_all(args.output_dir);
  }
  args.prediction_loss_only = true;
  args.metric_for_best_model = "accuracy";
  EXPECT_TRUE(contains(refusal(args), "expected one of eval_loss"));
}

TEST_F(StartChecks, AMetricOfTheProgramsOwnIsTaken) {
  TrainingArguments args = arguments();
  args.metric_for_best_model = "mcc";
  EXPECT_EQ(refusal(args, tiny_samples(12, 6),
                    {.compute_metrics = [](const Score&) { return Metrics{{"mcc", 0.5}}; }}),
            "");
}

TEST_F(StartChecks, AMetricNeedsLabels) {
  TrainingArguments args = arguments();
  args.metric_for_best_model = "loss";
  Dataset without = Dataset::from_columns({{"input_ids", Dataset::Rows{{1, 2}, {3}}}});
  EXPECT_TRUE(contains(refusal(args, std::move(without)), "[metric_for_best_model] expected labels"));
}

// A correlation with equal predictions is not defined: it is not the best, and ends no run.
TEST_F(StartChecks, AMetricThatSamplesDoNotDefineIsKnown) {
  BertConfig config = tiny_bert();
  config.labels = {.problem = ProblemType::kRegression, .names = {"value"}};
  const BertForSequenceClassification model(config);
  const auto samples = [](int64_t count) {
    Dataset::Rows ids;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back({1 + i % 5, 2});
      values.push_back(0.5F);
    }
    return Dataset::from_columns({{"input_ids", ids}, {"labels", values}});
  };
  TrainingArguments args = arguments();
  args.save_strategy = "no";
  args.metric_for_best_model = "pearson";
  Trainer trainer(model, args, samples(16), samples(4));
  EXPECT_EQ(trainer.train().global_step, 4);
  EXPECT_FALSE(trainer.state().best_metric.has_value());
}

TEST_F(StartChecks, EveryNameOfAnEvaluationIsKnown) {
  const std::vector<std::string> names = evaluation_metric_names(model_.task());
  Trainer trainer(model_, arguments(), {}, tiny_samples(12, 6));
  for (const auto& [name, value] : trainer.evaluate())
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST_F(StartChecks, ReportsThatCannotBeWrittenAreRefusedBeforeTheFirstStep) {
  TrainingArguments args = arguments();
  args.report_to = {"html"};
  fs::create_directories(fs::path(args.output_dir) / "report.html");
  EXPECT_TRUE(contains(refusal(args), "report.html"));
  args.report_to = {};
  args.profile = 1;
  fs::create_directories(fs::path(args.output_dir) / "profile.json");
  EXPECT_TRUE(contains(refusal(args), "profile.json"));
}

// The directory and its disk are looked at for the model alone, too.
TEST_F(StartChecks, WhereTheTrainedModelGoesIsCheckedWithoutCheckpoints) {
  TrainingArguments args = arguments();
  args.save_strategy = "no";
  args.output_dir = directory_.write("file", "x").string();
  EXPECT_TRUE(contains(refusal(args, tiny_samples(12, 6), {.saves_model = true}), "expected a directory"));
}

TEST_F(StartChecks, CheckpointsAreCounted) {
  TrainingArguments args = arguments();
  args.save_steps = 3;
  args.max_steps = 10;
  const Trainer trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6));
  TrainerState state = trainer.state();
  const auto checkpoints = [&] { return disk_need_of(args, trainer.session(), state, false).checkpoints; };
  EXPECT_EQ(checkpoints(), 4) << "after steps 3, 6, 9 and 10";
  state.global_step = 6;
  EXPECT_EQ(checkpoints(), 2);
  state.global_step = 0;
  args.save_total_limit = 1;
  EXPECT_EQ(checkpoints(), 2) << "an old one stays until the new one is there";
  args.metric_for_best_model = "loss";
  EXPECT_EQ(checkpoints(), 3) << "the best one stays too";
  args.save_total_limit = 100;
  EXPECT_EQ(checkpoints(), 4);
  args.save_strategy = "epoch";
  EXPECT_EQ(checkpoints(), 3);
  args.save_strategy = "best";
  EXPECT_EQ(checkpoints(), 5) << "evaluations";
  args.save_strategy = "no";
  EXPECT_EQ(checkpoints(), 0);
}

// Of what a run writes, file by file.
TEST_F(StartChecks, BytesAreThoseOfTheFiles) {
  for (const bool only_model : {false, true}) {
    TrainingArguments args = arguments();
    args.eval_strategy = "no";
    args.bf16 = true;
    args.save_only_model = only_model;
    Trainer trainer(model_, args, tiny_samples(28, 5));
    trainer.train();
    const DiskNeed need = disk_need_of(args, trainer.session(), trainer.state(), true);
    const fs::path checkpoint = fs::path(args.output_dir) / "checkpoint-4";
    int64_t tensors = 0;
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      if (fs::exists(checkpoint / name)) tensors += static_cast<int64_t>(fs::file_size(checkpoint / name));
    }
    EXPECT_LE(need.checkpoint_bytes, tensors);
    EXPECT_GT(need.checkpoint_bytes, tensors - 20'000) << "headers are small";
    EXPECT_GT(bytes_in(checkpoint), tensors);
    fs::remove_all(args.output_dir);
  }
}

TEST_F(StartChecks, ADiskWithoutRoomForACheckpointIsRefused) {
  const DiskNeed need = {.checkpoint_bytes = 300 * kMiB, .checkpoints = 5, .model_bytes = 100 * kMiB};
  std::string lines;
  const auto check = [&](const DiskNeed& of, int64_t free_bytes) {
    lines.clear();
    return refusal_of(
        [&] { check_disk_space(of, "out", free_bytes, [&](const std::string& line) { lines += line; }); });
  };
  EXPECT_EQ(
      check(need, 399 * kMiB),
      "[--output_dir out] expected 400.00 MiB free on its disk for a checkpoint and the trained model, got "
      "399.00 MiB; make room, or take another directory");
  EXPECT_EQ(check(need, 400 * kMiB), "");
  EXPECT_EQ(
      lines,
      "out: the disk has 400.00 MiB free, and 5 checkpoints of 300.00 MiB are to come: 1 fit; --save_total_limit "
      "keeps fewer");
  EXPECT_EQ(check(need, 1600 * kMiB), "");
  EXPECT_EQ(lines, "");
  EXPECT_TRUE(contains(check({.model_bytes = kMiB}, 0), "for the trained model"));
  EXPECT_TRUE(contains(check({.checkpoint_bytes = kMiB, .checkpoints = 1}, 0), "for a checkpoint,"));
  EXPECT_EQ(check({}, 0), "");
}

TEST_F(StartChecks, TheFreeBytesOfADisk) {
  EXPECT_GT(free_disk_bytes(directory_.path()), 0);
  EXPECT_THROW(free_disk_bytes(directory_.path() / "absent"), SystemError);
}

TEST_F(StartChecks, DataFilesAreOpenedBeforeTheFirstIsRead) {
  TrainingArguments args = arguments();
  args.train_file = directory_.write("train.csv", "text,label\na,1\n");
  const auto refusal_with = [&](const std::string& validation_file) {
    args.validation_file = validation_file;
    return refusal_of([&] { check_data_files(args); });
  };
  EXPECT_EQ(refusal_with(args.train_file), "");
  EXPECT_EQ(refusal_with(""), "");
  EXPECT_EQ(refusal_with("-"), "");
  EXPECT_TRUE(contains(refusal_with("/nonexistent/dev.csv"), "got nothing of that name"));
  EXPECT_TRUE(contains(refusal_with(directory_.path() / "*.tsv"),
                       "[--validation_file] expected files of the pattern"));
  EXPECT_TRUE(
      contains(refusal_with(directory_.path()), "[--validation_file] expected a file, got the directory"));
  EXPECT_TRUE(contains(refusal_with(directory_.write("dev.csv.gz", "text,label\n")),
                       "expected gzip, as it is named"));
  EXPECT_TRUE(
      contains(refusal_with(directory_.write("dev.parquet", "PAR1")), "got a Parquet file; convert it"));
  args.do_eval = false;
  EXPECT_EQ(refusal_with("/nonexistent/dev.csv"), "") << "it is not read";
  args.do_eval = true;
  args.train_file = "-";
  EXPECT_TRUE(contains(refusal_with("-"), "[--validation_file] expected a file, got standard input"));
}

}  // namespace
}  // namespace shoehorn
