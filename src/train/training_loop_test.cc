// What happens between the steps: when the loop logs, evaluates and saves, which model is the best, and what
// a failing run leaves and says.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

std::vector<int64_t> saved_steps(const fs::path& output_dir) {
  std::vector<int64_t> steps;
  for (const fs::path& path : list_checkpoints(output_dir))
    steps.push_back(std::stoll(path.filename().string().substr(std::string("checkpoint-").size())));
  return steps;
}

// A metric `quality` that goes through `values`, one an evaluation, and then stays.
std::function<Metrics(const Score&)> quality(std::vector<double> values) {
  return [values = std::move(values), calls = size_t{0}](const Score&) mutable {
    return Metrics{{"quality", values[std::min(calls++, values.size() - 1)]}};
  };
}

class TrainingLoopTest : public testing::Test {
 protected:
  // Batches of 8 of 28 samples: 4 steps an epoch. The best model is that of the largest `quality`.
  TrainingArguments arguments(const std::string& strategy, int64_t max_steps) const {
    TrainingArguments args = quiet_arguments(8);
    args.output_dir = (directory_.path() / "out").string();
    args.max_steps = max_steps;
    args.eval_strategy = args.save_strategy = strategy;
    args.eval_steps = args.save_steps = 2;
    args.load_best_model_at_end = true;
    args.metric_for_best_model = "quality";
    return args;
  }

  TrainerOptions options(std::vector<double> qualities) {
    return {.compute_metrics = quality(std::move(qualities)),
            .on_line = [this](const std::string& line) { lines_ += line + "\n"; }};
  }

  std::string checkpoint(int64_t step) const {
    return (directory_.path() / "out" / fmt::format("checkpoint-{}", step)).string();
  }

  const TestDirectory directory_;
  const BertForSequenceClassification model_{tiny_bert()};
  std::string lines_;
};

// transformers calls on_epoch_end behind the loop over steps, however that ended.
TEST_F(TrainingLoopTest, MaxStepsEndTheEpochToo) {
  const std::vector<std::pair<int64_t, std::vector<int64_t>>> cases = {
      {3, {3}}, {4, {4}}, {6, {4, 6}}, {8, {4, 8}}};
  for (const auto& [max_steps, expected] : cases) {
    TrainingArguments args = arguments("epoch", max_steps);
    args.output_dir = (directory_.path() / std::to_string(max_steps)).string();
    args.logging_strategy = "epoch";
    Trainer trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), options({1, 2}));
    EXPECT_EQ(trainer.train().global_step, max_steps);
    EXPECT_EQ(steps_with(trainer.state(), "loss"), expected) << max_steps;
    EXPECT_EQ(steps_with(trainer.state(), "eval_loss"), expected) << max_steps;
    EXPECT_EQ(saved_steps(args.output_dir), expected) << max_steps;
    EXPECT_EQ(trainer.state().best_global_step, max_steps) << max_steps;
  }
}

// The evaluation before the first step has no checkpoint, however good the model was.
TEST_F(TrainingLoopTest, EvaluationOnStartIsNoBestModel) {
  TrainingArguments args = arguments("steps", 4);
  args.save_strategy = "best";
  args.eval_on_start = true;
  Trainer trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), options({9, 1, 2}));
  trainer.train();
  EXPECT_EQ(steps_with(trainer.state(), "eval_quality"), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(trainer.state().best_metric, 2);
  EXPECT_EQ(trainer.state().best_model_checkpoint, checkpoint(4));
  EXPECT_EQ(saved_steps(args.output_dir), (std::vector<int64_t>{2, 4}));
  EXPECT_TRUE(contains(lines_, "loaded the best model"));
}

TEST_F(TrainingLoopTest, BestModelThatIsGoneLosesNothing) {
  TrainerOptions deleting = options({});
  deleting.compute_metrics = [this, calls = 0](const Score&) mutable {
    if (++calls == 3) fs::remove_all(checkpoint(2));
    return Metrics{{"quality", calls == 1 ? 1.0 : 0.0}};
  };
  Trainer trainer(model_, arguments("steps", 6), tiny_samples(28, 5), tiny_samples(12, 6),
                  std::move(deleting));
  EXPECT_EQ(trainer.train().global_step, 6);
  EXPECT_EQ(trainer.state().best_model_checkpoint, checkpoint(2));
  EXPECT_TRUE(contains(lines_, "the weights are those of the last step"));
  EXPECT_TRUE(contains(lines_, checkpoint(2)));
}

// The output directory has another name now: the best model is found in it, kept by rotation, and loaded.
TEST_F(TrainingLoopTest, BestModelIsFoundAfterAMove) {
  TrainingArguments args = arguments("steps", 4);
  Trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), options({2, 1})).train();
  fs::rename(args.output_dir, directory_.path() / "moved");
  args.output_dir = (directory_.path() / "moved").string();
  args.resume_from_checkpoint = "true";
  args.max_steps = 10;
  args.save_total_limit = 1;
  lines_.clear();
  Trainer resumed(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), options({1}));
  resumed.train();
  EXPECT_EQ(saved_steps(args.output_dir), (std::vector<int64_t>{2, 10}));
  const std::string best = (directory_.path() / "moved/checkpoint-2").string();
  EXPECT_EQ(resumed.state().best_model_checkpoint, best);
  EXPECT_TRUE(contains(lines_, "loaded the best model, of " + best));
}

// A run that goes on without the best one says so, and a later one may be the best.
TEST_F(TrainingLoopTest, BestModelThatIsGoneOnResume) {
  TrainingArguments args = arguments("steps", 4);
  Trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), options({2, 1})).train();
  fs::remove_all(checkpoint(2));
  args.resume_from_checkpoint = "true";
  args.max_steps = 8;
  Trainer resumed(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), options({1, 3}));
  resumed.train();
  EXPECT_TRUE(contains(lines_, checkpoint(2) + " is not there"));
  EXPECT_EQ(resumed.state().best_model_checkpoint, checkpoint(8));
}

TEST_F(TrainingLoopTest, FailureOfTheReportHidesNoOther) {
  TrainingArguments args = arguments("steps", 4);
  args.report_to = {"html"};
  TrainerOptions failing = options({});
  // The name is taken when the run has begun: before, it would be refused.
  failing.compute_metrics = [this](const Score&) -> Metrics {
    fs::remove(directory_.path() / "out/report.html");
    directory_.write("out/report.html/in_its_place", "x");
    throw user_error("[quality] expected a metric, got none");
  };
  Trainer trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), std::move(failing));
  EXPECT_TRUE(contains(message_of<UserError>([&] { trainer.train(); }), "[quality] expected a metric"));
  EXPECT_TRUE(contains(lines_, "the report was not written: "));
}

TEST_F(TrainingLoopTest, CallsWithoutTheirDataAreTheCallersMistakes) {
  const TrainingArguments args = quiet_arguments();
  Trainer training(model_, args, tiny_samples(4, 1));
  EXPECT_TRUE(contains(message_of<UserError>([&] { training.evaluate(); }), "[Trainer: evaluate]"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { training.predict({}); }), "[Trainer: predict]"));
  Trainer evaluating(model_, args, {}, tiny_samples(4, 1));
  EXPECT_TRUE(contains(message_of<UserError>([&] { evaluating.train(); }), "[Trainer: train]"));
  TrainingArguments on_start = args;
  on_start.eval_on_start = true;
  EXPECT_TRUE(contains(message_of<UserError>([&] { Trainer trainer(model_, on_start, tiny_samples(4, 1)); }),
                       "[--eval_on_start] expected an evaluation set"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { Trainer trainer(model_, args, {}); }), "got neither"));
}

// The memory is reserved when the weights turn out to be unreadable: the next call reads them again, and does
// not go on without them.
TEST_F(TrainingLoopTest, FailedStartIsTriedAgain) {
  const fs::path saved = directory_.path() / "saved";
  Trainer source(model_, quiet_arguments(), {}, tiny_samples(8, 6));
  source.save_model(saved);
  const double loss = metric_number(source.evaluate().at("eval_loss"));
  const std::string whole = read_text_file(saved / "model.safetensors");
  fs::resize_file(saved / "model.safetensors", whole.size() / 2);
  Trainer trainer(model_, quiet_arguments(), {}, tiny_samples(8, 6), {.weights = saved});
  EXPECT_TRUE(contains(message_of<UserError>([&] { trainer.evaluate(); }), "model.safetensors"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { trainer.evaluate(); }), "model.safetensors"));
  directory_.write("saved/model.safetensors", whole);
  EXPECT_EQ(metric_number(trainer.evaluate().at("eval_loss")), loss);
}

// What would be evaluated is a classifier that nobody trained.
TEST_F(TrainingLoopTest, EvaluationRefusesRandomWeights) {
  const fs::path saved = directory_.path() / "saved";
  Trainer source(model_, quiet_arguments(), {}, tiny_samples(8, 6));
  source.save_model(saved);
  std::vector<TensorSpec> kept = weight_specs(source.session().state());
  std::erase_if(kept, [](const TensorSpec& spec) { return spec.name.starts_with("classifier"); });
  const NamedWeights weights = weights_of(source.session());
  SafetensorsWriter writer(saved / "model.safetensors", kept);
  for (const TensorSpec& spec : kept)
    writer.append(spec.name, std::as_bytes(std::span(weights.at(spec.name))));
  writer.commit();
  fs::remove(saved / "shoehorn_manifest.json");  // of the file that this one replaces

  Trainer evaluating(model_, quiet_arguments(), {}, tiny_samples(8, 6), {.weights = saved});
  EXPECT_TRUE(contains(message_of<UserError>([&] { evaluating.evaluate(); }),
                       "got none of classifier.weight, classifier.bias"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { evaluating.predict([](std::span<const float>) {}); }),
                       "classifier.weight"));
  TrainerOptions training = options({1});
  training.weights = saved;
  TrainingArguments args = quiet_arguments();
  args.max_steps = 1;
  Trainer(model_, args, tiny_samples(8, 5), {}, std::move(training)).train();
  EXPECT_TRUE(contains(lines_, "new weights, to be trained: classifier.weight, classifier.bias"));
}

}  // namespace
}  // namespace shoehorn
