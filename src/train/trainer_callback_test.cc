#include "train/trainer_callback.h"

#include <gtest/gtest.h>

#include "io/checkpoint_directory.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

// Writes down the events and, where it is told to, sets the control.
class Recorder final : public TrainerCallback {
 public:
  using Decide =
      std::function<void(const std::string& event, const TrainerState& state, TrainerControl& control)>;
  explicit Recorder(Decide decide = {}) : decide_(std::move(decide)) {}

  void on_train_begin(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("train_begin", s, c);
  }
  void on_train_end(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("train_end", s, c);
  }
  void on_epoch_begin(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("epoch_begin", s, c);
  }
  void on_epoch_end(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("epoch_end", s, c);
  }
  void on_step_begin(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("step_begin", s, c);
  }
  void on_step_end(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("step_end", s, c);
  }
  void on_evaluate(const TrainingArguments&, const TrainerState& s, TrainerControl& c,
                   const Metrics& metrics) override {
    EXPECT_TRUE(metrics.contains("eval_loss"));
    record("evaluate", s, c);
  }
  void on_prediction_step(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("prediction_step", s, c);
  }
  void on_predict(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("predict", s, c);
  }
  void on_save(const TrainingArguments&, const TrainerState& s, TrainerControl& c) override {
    record("save", s, c);
  }
  void on_log(const TrainingArguments&, const TrainerState& s, TrainerControl& c,
              const Metrics& logs) override {
    record(logs.contains("loss")        ? "log"
           : logs.contains("eval_loss") ? "log_evaluation"
                                        : "log_results",
           s, c);
  }

  std::string state_name() const override { return "Recorder"; }
  CallbackState state() const override { return {.args = {}, .attributes = {{"events", count}}}; }
  void restore(const CallbackState& state, const std::string&) override {
    count = std::get<int64_t>(state.attributes.at("events"));
  }

  std::vector<std::string> events;
  int64_t count = 0;

 private:
  void record(const std::string& event, const TrainerState& state, TrainerControl& control) {
    ++count;
    events.push_back(fmt::format("{} {}", event, state.global_step));
    if (decide_) decide_(event, state, control);
  }

  Decide decide_;
};

class TrainerCallbackTest : public testing::Test {
 protected:
  // Batches of 8 of 28 samples: 4 steps an epoch. Nothing is due of itself.
  TrainingArguments arguments(int64_t max_steps) const {
    TrainingArguments args = quiet_arguments(8);
    args.output_dir = (directory_.path() / "out").string();
    args.max_steps = max_steps;
    args.logging_strategy = "no";
    return args;
  }

  TrainerState train(const TrainingArguments& args, const std::shared_ptr<Recorder>& recorder,
                     const std::vector<std::shared_ptr<TrainerCallback>>& first = {}) {
    Trainer trainer(model_, args, tiny_samples(28, 5), tiny_samples(12, 6), {.callbacks = first});
    trainer.add_callback(recorder);
    trainer.train();
    trainer.save_model(args.output_dir);
    return trainer.state();
  }

  const TestDirectory directory_;
  const BertForSequenceClassification model_{tiny_bert()};
};

TEST_F(TrainerCallbackTest, EventsComeInTheTrainersOrder) {
  TrainingArguments args = arguments(2);
  args.logging_strategy = args.eval_strategy = args.save_strategy = "steps";
  args.logging_steps = 2;
  args.eval_steps = args.save_steps = 2;
  args.per_device_eval_batch_size = 8;
  const auto recorder = std::make_shared<Recorder>();
  train(args, recorder);
  EXPECT_EQ(recorder->events,
            (std::vector<std::string>{"train_begin 0", "epoch_begin 0", "step_begin 0", "step_end 1",
                                      "step_begin 1", "step_end 2", "log 2", "prediction_step 2",
                                      "prediction_step 2", "log_evaluation 2", "evaluate 2", "save 2",
                                      "epoch_end 2", "log_results 2", "train_end 2"}));
}

TEST_F(TrainerCallbackTest, EvaluationsAndPredictionsOfAProgramAreEvents) {
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(model_, arguments(1), {}, tiny_samples(12, 6), {.callbacks = {recorder}});
  trainer.evaluate();
  trainer.predict([](std::span<const float>) {});
  EXPECT_EQ(recorder->events,
            (std::vector<std::string>{"prediction_step 0", "prediction_step 0", "evaluate 0",
                                      "prediction_step 0", "prediction_step 0", "predict 0"}));
}

// Asked for when a step begins or ends, or at the end of an epoch; once.
TEST_F(TrainerCallbackTest, TheControlAsksForLogsEvaluationsAndCheckpoints) {
  const auto recorder = std::make_shared<Recorder>(
      [](const std::string& event, const TrainerState& state, TrainerControl& control) {
        if (event == "step_begin" && state.global_step == 1) control.should_save = true;
        if (event == "step_end" && state.global_step == 3)
          control.should_log = control.should_evaluate = true;
        if (event == "epoch_end" && state.global_step == 4) control.should_log = control.should_save = true;
      });
  const TrainerState state = train(arguments(6), recorder);
  EXPECT_EQ(steps_with(state, "loss"), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(steps_with(state, "eval_loss"), (std::vector<int64_t>{3}));
  std::vector<std::string> saved;
  for (const fs::path& path : list_checkpoints(directory_.path() / "out"))
    saved.push_back(path.filename().string());
  EXPECT_EQ(saved, (std::vector<std::string>{"checkpoint-2", "checkpoint-4"}));
}

TEST_F(TrainerCallbackTest, ACallbackEndsTraining) {
  const auto recorder = std::make_shared<Recorder>(
      [](const std::string& event, const TrainerState& state, TrainerControl& control) {
        control.should_training_stop |= event == "step_end" && state.global_step == 3;
      });
  EXPECT_EQ(train(arguments(6), recorder).global_step, 3);
  EXPECT_EQ(recorder->events.back(), "train_end 3");
  EXPECT_EQ(recorder->events[recorder->events.size() - 3], "epoch_end 3");
}

// 4 steps an epoch: the first one ends after its second, and the run with the epochs.
TEST_F(TrainerCallbackTest, ACallbackEndsAnEpoch) {
  const auto recorder = std::make_shared<Recorder>(
      [](const std::string& event, const TrainerState& state, TrainerControl& control) {
        control.should_epoch_stop |= event == "step_end" && state.global_step == 2;
      });
  TrainingArguments args = arguments(-1);
  args.num_train_epochs = 2;
  const TrainerState state = train(args, recorder);
  EXPECT_EQ(state.global_step, 6);
  EXPECT_EQ(state.epoch, 2.0);
  const std::vector<std::string>& events = recorder->events;
  const auto ended = std::find(events.begin(), events.end(), "epoch_end 2");
  ASSERT_NE(ended, events.end());
  EXPECT_EQ(*(ended + 1), "epoch_begin 2");
}

TEST_F(TrainerCallbackTest, ARunWhoseEpochsEndEarlyResumesBitForBit) {
  const auto end_epoch = [](const std::string& event, const TrainerState& state, TrainerControl& control) {
    control.should_epoch_stop |= event == "step_end" && state.global_step % 3 == 0;
  };
  TrainingArguments args = arguments(8);
  args.save_strategy = "steps";
  for (const int64_t step : {3, 4, 5, 6}) {
    args.save_steps = static_cast<double>(step);
    args.resume_from_checkpoint = "";
    args.output_dir = (directory_.path() / std::to_string(step)).string();
    const auto whole = std::make_shared<Recorder>(end_epoch);
    const TrainerState state = train(args, whole);
    const std::string weights = read_text_file(fs::path(args.output_dir) / "model.safetensors");
    for (const fs::path& checkpoint : list_checkpoints(args.output_dir)) {
      if (checkpoint.filename() != fmt::format("checkpoint-{}", step)) fs::remove_all(checkpoint);
    }
    args.resume_from_checkpoint = "true";
    const auto resumed = std::make_shared<Recorder>(end_epoch);
    EXPECT_EQ(train(args, resumed).epoch, state.epoch);
    EXPECT_TRUE(read_text_file(fs::path(args.output_dir) / "model.safetensors") == weights) << step;
  }
}

TEST_F(TrainerCallbackTest, ACallbackThatCountsGoesOnCounting) {
  TrainingArguments args = arguments(4);
  args.save_strategy = "steps";
  args.save_steps = 2;
  // Two of a name: their states are a list.
  const auto first = std::make_shared<Recorder>();
  const auto second = std::make_shared<Recorder>();
  train(args, second, {first});
  fs::remove_all(directory_.path() / "out" / "checkpoint-4");
  args.resume_from_checkpoint = "true";
  const auto other = std::make_shared<Recorder>();
  const auto another = std::make_shared<Recorder>();
  train(args, another, {other});
  // train_begin and epoch_begin came again, but not the event of the checkpoint itself.
  EXPECT_EQ(other->count, first->count + 1);
  EXPECT_EQ(another->count, second->count + 1);
}

TEST_F(TrainerCallbackTest, EventsThatNobodyOverridesDoNothing) {
  class Quiet final : public TrainerCallback {};
  TrainingArguments args = arguments(1);
  args.eval_strategy = args.save_strategy = "epoch";
  EXPECT_EQ(train(args, std::make_shared<Recorder>(), {std::make_shared<Quiet>()}).global_step, 1);
  EXPECT_TRUE(contains(refusal_of([] { Quiet().restore({}, "state.json"); }), "[state.json] expected"));
}

}  // namespace
}  // namespace shoehorn
