// Training that is stopped at any node of any program, and resumed, is the training that was never stopped: every
// byte of weights, optimizer state, log and position.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/stop_request.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr int64_t kSteps = 9;

// Requests a stop when a node has run, counted over all programs.
class StopAtNode final : public TrainerCallback {
 public:
  explicit StopAtNode(int64_t node) : node_(node) {}
  void watch(Trainer& trainer) { trainer_ = &trainer; }
  void on_train_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) override {
    trainer_->session().executor().set_observer([this](ProgramId, size_t, std::span<const int64_t>) {
      if (++nodes_ == node_) request_stop(SIGTERM);
    });
  }
  int64_t nodes() const { return nodes_; }

 private:
  int64_t node_;
  int64_t nodes_ = 0;
  Trainer* trainer_ = nullptr;
};

struct Setting {
  std::string name;
  std::function<void(TrainingArguments&)> set;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

// 28 samples in batches of 4, two a step: 4 steps an epoch, the last one short. Logs, evaluates and saves in the
// middle of epochs and at their ends.
TrainingArguments arguments_of(const Setting& setting, const fs::path& output_dir) {
  TrainingArguments args = quiet_arguments(4);
  args.output_dir = output_dir.string();
  args.max_steps = kSteps;
  args.gradient_accumulation_steps = 2;
  args.save_strategy = args.eval_strategy = "steps";
  args.save_steps = 4;
  args.eval_steps = 2;
  args.logging_steps = 3;
  args.metric_for_best_model = "accuracy";
  setting.set(args);
  return args;
}

// The end of a run, without what a clock measured: its model and state, and its last checkpoint if there is one.
std::map<std::string, std::string> end_of(const fs::path& output_dir, int64_t steps = kSteps) {
  std::map<std::string, std::string> files = {
      {"model.safetensors", read_text_file(output_dir / "model.safetensors")}};
  nlohmann::json state = read_json(output_dir / "trainer_state.json");
  for (nlohmann::json& entry : state["log_history"]) {
    for (const char* split : {"train", "eval"}) {
      for (const char* name : {"_runtime", "_samples_per_second", "_steps_per_second"})
        entry.erase(split + std::string(name));
    }
  }
  state.erase("best_model_checkpoint");  // a path
  files["trainer_state.json"] = state.dump();
  const fs::path last = output_dir / fmt::format("checkpoint-{}", steps);
  if (!fs::exists(last)) return files;
  files["optimizer.safetensors"] = read_text_file(last / "optimizer.safetensors");
  nlohmann::json resume = read_json(last / "shoehorn_state.json");
  // A stop in what is due behind the last step saves the checkpoint before that is done.
  resume.erase("due");
  resume["position"].erase("is_epoch_ended");
  files["shoehorn_state.json"] = resume.dump(2);
  return files;
}

class TrainerStop : public testing::Test {
 protected:
  ~TrainerStop() override { clear_stop_request(); }

  TrainOutput train(TrainingArguments args, const std::shared_ptr<StopAtNode>& stop = {},
                    TrainerOptions options = {}) {
    clear_stop_request();
    Trainer trainer(model_, std::move(args), tiny_samples(28, 3), tiny_samples(12, 6), std::move(options));
    if (stop) {
      stop->watch(trainer);
      trainer.add_callback(stop);
    }
    TrainOutput output = trainer.train();
    if (output.stop_signal != 0) return output;
    trainer.save_model(trainer.arguments().output_dir);
    trainer.save_state();
    return output;
  }

  fs::path path(const std::string& name) const { return directory_.path() / name; }

  const TestDirectory directory_;
  const BertForSequenceClassification model_{tiny_bert(0.1F)};
};

class TrainerStopSettings : public TrainerStop, public testing::WithParamInterface<Setting> {};

TEST_P(TrainerStopSettings, AResumedRunEndsAsIfItHadNeverStopped) {
  const auto counter = std::make_shared<StopAtNode>(-1);
  train(arguments_of(GetParam(), path("whole")), counter);
  const std::map<std::string, std::string> whole = end_of(path("whole"));
  std::mt19937_64 random(7);
  int64_t resumed = 0;
  for (int run = 0; run < 6 && !HasFailure(); ++run) {
    TrainingArguments args = arguments_of(GetParam(), path(std::to_string(run)));
    // Stopped again and again, until what is left is shorter than the next stretch.
    for (bool is_stopped = true; is_stopped;) {
      const auto nodes = static_cast<int64_t>(random() % static_cast<uint64_t>(counter->nodes()));
      const TrainOutput output = train(args, std::make_shared<StopAtNode>(1 + nodes));
      is_stopped = output.stop_signal != 0;
      if (!is_stopped) break;
      EXPECT_EQ(output.stop_signal, SIGTERM);
      EXPECT_EQ(output.checkpoint.empty(), output.global_step == 0);
      if (output.checkpoint.empty()) continue;
      EXPECT_EQ(checkpoint_step(output.checkpoint.filename().string()), output.global_step);
      EXPECT_EQ(checkpoint_defect(output.checkpoint, VerifiedFiles::kAll), "");
      args.resume_from_checkpoint = "true";
      ++resumed;
    }
    for (const auto& [name, content] : end_of(args.output_dir))
      EXPECT_TRUE(content == whole.at(name))
          << name << " differs in run " << run
          << (name.ends_with(".json") ? ":\n" + content + "\nfor\n" + whole.at(name) : "");
  }
  EXPECT_GE(resumed, 3) << "the stops must hit runs that have something to lose";
}

INSTANTIATE_TEST_SUITE_P(
    Settings, TrainerStopSettings,
    testing::Values(
        Setting{"accumulation", [](TrainingArguments&) {}},
        Setting{"bf16_one_program",
                [](TrainingArguments& a) {
                  a.bf16 = true;
                  a.gradient_accumulation_steps = 1;
                }},
        Setting{"layer_major_epochs",
                [](TrainingArguments& a) {
                  a.accumulation_order = "layer_major";
                  a.save_strategy = a.eval_strategy = a.logging_strategy = "epoch";
                }},
        Setting{"in_backward",
                [](TrainingArguments& a) {
                  a.gradient_accumulation_steps = 1;
                  a.max_grad_norm = 0;
                  a.update_in_backward = true;
                }},
        Setting{"fp16_with_dynamic_scale",
                [](TrainingArguments& a) {
                  a.fp16 = true;
                  a.initial_scale_power = 20;
                  a.loss_scale_window = 3;
                }},
        // Each evaluation moves the learning rate, and only epochs evaluate while only steps save.
        Setting{"plateau_of_epochs",
                [](TrainingArguments& a) {
                  a.lr_scheduler_type = "reduce_lr_on_plateau";
                  a.lr_scheduler_kwargs = {{"patience", int64_t{0}}, {"mode", std::string("max")}};
                  a.eval_strategy = "epoch";
                  a.dataloader_num_workers = 1;
                }},
        Setting{"best_only",
                [](TrainingArguments& a) {
                  a.save_strategy = "best";
                  a.metric_for_best_model = "loss";
                  a.load_best_model_at_end = true;
                }}),
    [](const auto& info) { return info.param.name; });

// Stops at each node from the end of a step on, through its evaluation and its checkpoint, to the next update.
TEST_F(TrainerStop, EveryNodeBetweenTwoSteps) {
  const Setting setting{"each", [](TrainingArguments& a) {
                          a.max_steps = 2;
                          a.gradient_accumulation_steps = 1;
                          a.eval_steps = a.save_steps = a.logging_steps = 1;
                          a.early_stopping_patience = 1;
                          a.early_stopping_threshold = 100;
                        }};
  const auto counter = std::make_shared<StopAtNode>(-1);
  train(arguments_of(setting, path("whole")), counter);
  const std::map<std::string, std::string> whole = end_of(path("whole"), 2);
  std::set<int64_t> stopped_at;
  for (int64_t node = 1; node <= counter->nodes() && !HasFailure(); node += 5) {
    TrainingArguments args = arguments_of(setting, path(std::to_string(node)));
    const TrainOutput output = train(args, std::make_shared<StopAtNode>(node));
    stopped_at.insert(output.stop_signal == 0 ? -1 : output.global_step);
    if (output.stop_signal != 0) {
      if (output.global_step > 0) args.resume_from_checkpoint = "true";
      EXPECT_EQ(train(args).global_step, 2);
    }
    for (const auto& [name, content] : end_of(args.output_dir, 2))
      EXPECT_TRUE(content == whole.at(name)) << name << " differs with a stop at node " << node;
    fs::remove_all(args.output_dir);
  }
  EXPECT_EQ(stopped_at, (std::set<int64_t>{0, 1, 2})) << "before the first update, and after each";
}

// Behind the evaluation that ended training, in its checkpoint or before it: nothing is trained further.
TEST_F(TrainerStop, AnEarlyEndThatWasDecidedStays) {
  const Setting setting{"early", [](TrainingArguments& a) { a.save_strategy = "no"; }};
  TrainingArguments args = arguments_of(setting, path("out"));
  args.enable_jit_checkpoint = true;
  class EndAndStop final : public TrainerCallback {
    void on_step_end(const TrainingArguments&, const TrainerState& state, TrainerControl& control) override {
      if (state.global_step != 4) return;
      control.should_training_stop = true;
      request_stop(SIGINT);  // before the evaluation that is due
    }
  };
  const TrainOutput output = train(args, {}, {.callbacks = {std::make_shared<EndAndStop>()}});
  EXPECT_EQ(output.stop_signal, SIGINT);
  EXPECT_EQ(output.checkpoint.filename(), "checkpoint-4");
  args.resume_from_checkpoint = "true";
  EXPECT_EQ(train(args).global_step, 4);
}

// Once.
class RequestAtStep final : public TrainerCallback {
 public:
  explicit RequestAtStep(int64_t step) : step_(step) {}
  void on_step_begin(const TrainingArguments&, const TrainerState& state, TrainerControl&) override {
    if (is_done_ || state.global_step != step_) return;
    is_done_ = true;
    request_stop(SIGHUP);
  }

 private:
  int64_t step_;
  bool is_done_ = false;
};

TEST_F(TrainerStop, SavesUnlessItIsToldOtherwise) {
  struct Case {
    std::string save_strategy;
    std::optional<bool> jit;
    int64_t step;
    const char* checkpoint;
  };
  const std::vector<Case> cases = {{"steps", {}, 3, "checkpoint-3"},    {"steps", {}, 0, ""},
                                   {"steps", {}, 4, "checkpoint-4"},    {"no", {}, 3, ""},
                                   {"no", true, 3, "checkpoint-3"},     {"epoch", false, 3, ""},
                                   {"steps", false, 5, "checkpoint-4"}, {"epoch", {}, 3, "checkpoint-3"}};
  for (const Case& item : cases) {
    TrainingArguments args = arguments_of({"", [](TrainingArguments&) {}}, path("out"));
    args.eval_strategy = "no";
    args.save_strategy = item.save_strategy;
    args.enable_jit_checkpoint = item.jit;
    const TrainOutput output = train(args, {}, {.callbacks = {std::make_shared<RequestAtStep>(item.step)}});
    EXPECT_EQ(output.stop_signal, SIGHUP);
    EXPECT_EQ(output.global_step, item.step);
    const bool is_newest = item.jit != false || item.step == 4;
    if (is_newest) {
      EXPECT_EQ(output.checkpoint.filename(), item.checkpoint) << item.save_strategy << item.step;
    } else {
      EXPECT_EQ(output.checkpoint, "") << item.save_strategy << item.step;
    }
    EXPECT_EQ(fs::exists(path("out") / fmt::format("checkpoint-{}", item.step)),
              *item.checkpoint != 0 && is_newest);
    fs::remove_all(path("out"));
  }
}

// The step that was begun is no step of the results; its log has no entry of an end.
TEST_F(TrainerStop, TheOutputIsOfTheStepsThatWereTaken) {
  TrainingArguments args = arguments_of({"", [](TrainingArguments&) {}}, path("out"));
  args.report_to = {"html", "jsonl"};
  args.profile = 6;
  Trainer trainer(model_, args, tiny_samples(28, 3), tiny_samples(12, 6),
                  {.callbacks = {std::make_shared<RequestAtStep>(5)}});
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.global_step, 5);
  EXPECT_EQ(trainer.step_seconds().size(), 5U);
  EXPECT_GT(metric_number(output.metrics.at("train_loss")), 0);
  EXPECT_FALSE(contains(read_text_file(path("out/log.jsonl")), "train_runtime"));
  EXPECT_TRUE(contains(read_text_file(path("out/report.html")), "</html>"));
  ASSERT_NE(trainer.profile(), nullptr);
  EXPECT_EQ(trainer.profile()->recorded_steps(), 4);
  EXPECT_TRUE(fs::exists(path("out/profile.json")));
  // In the same process it goes on from memory.
  clear_stop_request();
  EXPECT_EQ(trainer.train().global_step, kSteps);
}

// A checkpoint that a stop adds counts among those that are kept.
TEST_F(TrainerStop, KeepsNoMoreCheckpointsThanTheLimit) {
  TrainingArguments args = arguments_of({"", [](TrainingArguments&) {}}, path("out"));
  args.eval_strategy = "no";
  args.metric_for_best_model = "";
  args.save_total_limit = 1;
  train(args, {}, {.callbacks = {std::make_shared<RequestAtStep>(5)}});
  ASSERT_EQ(list_checkpoints(path("out")).size(), 1U);
  EXPECT_EQ(list_checkpoints(path("out"))[0].filename(), "checkpoint-5");
}

// A resumed run that is stopped before its first step has its checkpoint already; beside another directory it has none.
TEST_F(TrainerStop, ACheckpointThatIsThereIsNotWrittenAgain) {
  TrainingArguments args = arguments_of({"", [](TrainingArguments&) {}}, path("out"));
  args.eval_strategy = "no";
  args.save_steps = 3;
  train(args);
  args.resume_from_checkpoint = (path("out") / "checkpoint-3").string();
  const auto written = fs::last_write_time(path("out/checkpoint-3/trainer_state.json"));
  TrainOutput output = train(args, {}, {.callbacks = {std::make_shared<RequestAtStep>(3)}});
  EXPECT_EQ(fs::absolute(output.checkpoint), path("out/checkpoint-3"));
  EXPECT_EQ(fs::last_write_time(path("out/checkpoint-3/trainer_state.json")), written);
  args.output_dir = path("other").string();
  output = train(args, {}, {.callbacks = {std::make_shared<RequestAtStep>(3)}});
  EXPECT_EQ(output.checkpoint, path("other/checkpoint-3"));
}

TEST_F(TrainerStop, EvaluationsAndPredictionsOfAProgramThrow) {
  Trainer trainer(model_, quiet_arguments(4), {}, tiny_samples(12, 6));
  request_stop(SIGINT);
  EXPECT_THROW(trainer.evaluate(), Stopped);
  EXPECT_THROW(trainer.predict([](std::span<const float>) {}), Stopped);
  clear_stop_request();
  EXPECT_TRUE(trainer.evaluate().contains("eval_loss"));
}

// A program's own handlers stay, unless the arguments ask for the trainer's.
TEST_F(TrainerStop, HandlersAreInstalledOnlyOnRequest) {
  class Look final : public TrainerCallback {
   public:
    void on_step_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) override {
      struct sigaction action{};
      sigaction(SIGTERM, nullptr, &action);
      is_default &= action.sa_handler == SIG_DFL;
    }
    bool is_default = true;
  };
  for (const bool asks : {false, true}) {
    TrainingArguments args = arguments_of({"", [](TrainingArguments&) {}}, path(asks ? "asked" : "not"));
    if (asks) args.enable_jit_checkpoint = true;
    const auto look = std::make_shared<Look>();
    train(args, {}, {.callbacks = {look}});
    EXPECT_EQ(look->is_default, !asks);
    struct sigaction action{};
    sigaction(SIGTERM, nullptr, &action);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << "afterwards all is as before";
  }
}

}  // namespace
}  // namespace shoehorn
