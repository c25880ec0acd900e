// A run that goes on from a checkpoint with other arguments or data: what is refused by name, what one flag
// permits, and what is shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "resume_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class ResumeRefusal : public testing::Test {
 protected:
  void SetUp() override { train(arguments()); }

  TrainingArguments arguments() const {
    return arguments_of({"plain", [](TrainingArguments&) {}}, directory_.path());
  }

  std::string refusal(const std::function<void(TrainingArguments&)>& change) const {
    TrainingArguments args = arguments();
    args.resume_from_checkpoint = "true";
    change(args);
    return message_of<UserError>([&] { train(args); });
  }

  std::string refusal_with(Dataset data) const {
    TrainingArguments args = arguments();
    args.resume_from_checkpoint = args.output_dir + "/checkpoint-5";
    const BertForSequenceClassification model(tiny_bert(0.1F));
    Trainer trainer(model, args, std::move(data));
    return message_of<UserError>([&] { trainer.train(); });
  }

  const TestDirectory directory_;
};

TEST_F(ResumeRefusal, AnotherRunIsNamedByWhatDiffers) {
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.seed = 7; }), "--seed 42"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.per_device_train_batch_size = 2; }),
                       "--per_device_train_batch_size 4"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.gradient_accumulation_steps = 3; }),
                       "--gradient_accumulation_steps 1"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.optim = "sgd"; }), "--optim 'adamw' → 'sgd'"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.batch_size_ramp = {"0:4"}; }),
                       "--batch_size_ramp nothing → 0:4"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.data_seed = 7; }), "--data_seed nothing → 7"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.dataloader_drop_last = true; }),
                       "--dataloader_drop_last false"));
  EXPECT_TRUE(contains(
      refusal([](TrainingArguments& a) { a.resume_from_checkpoint = a.output_dir + "/checkpoint-11"; }),
      "checkpoint-11"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.output_dir += "/empty"; }),
                       "expected a complete checkpoint-N"));
}

// 5 steps of 4 are 20 samples of either, in another order.
TEST_F(ResumeRefusal, AnotherDataSetIsNamedByItsSize) {
  EXPECT_TRUE(contains(refusal_with(tiny_samples(29, 3)), "other samples: training data 28 samples"));
}

TEST_F(ResumeRefusal, AnotherDataSetOfTheSameSizeIsNamedByItsContent) {
  EXPECT_TRUE(contains(refusal_with(tiny_samples(28, 4)), "training data 28 samples of content"));
}

TEST_F(ResumeRefusal, OtherNumericsAreNamed) {
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.bf16 = true; }),
                       "other numerics: --bf16 false → true; --allow_resume_changes"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) { a.label_smoothing_factor = 0.1; }),
                       "other numerics: --label_smoothing_factor 0 → 0.1"));
}

// The optimizer state that the checkpoint lacks cannot be permitted.
TEST_F(ResumeRefusal, OtherStatesAreRefusedInAnyCase) {
  EXPECT_TRUE(contains(refusal([](TrainingArguments& a) {
                         a.optim = "sgd";
                         a.allow_resume_changes = true;
                       }),
                       "other states: --optim"));
}

// From checkpoint-5 to the end, with other arguments and data than before; the lines that are said.
class ResumeChanged : public testing::Test {
 protected:
  std::vector<std::string> resume(const std::function<void(TrainingArguments&)>& change,
                                  Dataset data = tiny_samples(28, 3), Dataset evaluation = {}) const {
    TrainingArguments args = arguments_of({"", change}, directory_.path() / "resumed");
    args.resume_from_checkpoint = (directory_.path() / "whole/checkpoint-5").string();
    std::vector<std::string> lines;
    const BertForSequenceClassification model(tiny_bert(0.1F));
    Trainer trainer(model, args, std::move(data), std::move(evaluation),
                    {.on_line = [&](const std::string& line) { lines.push_back(line); }});
    trainer.train();
    return lines;
  }

  fs::path whole() const { return directory_.path() / "whole"; }
  fs::path resumed() const { return directory_.path() / "resumed"; }

  const TestDirectory directory_;
};

TEST_F(ResumeChanged, WhatMayChangeIsShown) {
  train(arguments_of({"", [](TrainingArguments&) {}}, whole()));
  const std::vector<std::string> lines = resume([](TrainingArguments& a) {
    a.learning_rate = 2e-3;
    a.max_steps = 6;
    a.gradient_checkpointing = true;
    a.output_dir += "/elsewhere";
  });
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "changed since checkpoint-5: --max_steps 12 → 6",
                       "changed since checkpoint-5: --gradient_checkpointing false → true",
                       "changed since checkpoint-5: --learning_rate 0.001 → 0.002",
                       fmt::format("resumed from {} at step 5", (whole() / "checkpoint-5").string())}));
}

TEST_F(ResumeChanged, OneFlagPermitsOtherSamplesAndNumerics) {
  train(arguments_of({"", [](TrainingArguments&) {}}, whole()));
  const std::vector<std::string> lines = resume(
      [](TrainingArguments& a) {
        a.per_device_train_batch_size = 2;
        a.bf16 = true;
        a.allow_resume_changes = true;
      },
      tiny_samples(30, 4));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "changed since checkpoint-5: --per_device_train_batch_size 4 → 2");
  EXPECT_EQ(lines[1], "changed since checkpoint-5: --bf16 false → true");
  EXPECT_TRUE(contains(lines[2], "training data 28 samples of content"));
  // The position in the data is that of step 5 as the changed run counts it, and so the next checkpoint's.
  EXPECT_TRUE(contains(lines[3], "samples go on where the changed run is"));
  const nlohmann::json state = read_json(resumed() / "checkpoint-12/shoehorn_state.json");
  EXPECT_EQ(state["position"]["samples_consumed"], 24);
  EXPECT_EQ(state["identity"]["training_samples"], 30);
}

// The same samples in each step, in micro-batches of half the size: a change of rounding, of memory and time.
TEST_F(ResumeChanged, ASmallerMicroBatchInAnEqualStep) {
  train(arguments_of({"", [](TrainingArguments&) {}}, whole()));
  const std::vector<std::string> lines = resume([](TrainingArguments& a) {
    a.per_device_train_batch_size = 2;
    a.gradient_accumulation_steps = 2;
    a.max_steps = 6;
    a.save_steps = 6;
  });
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[0], "changed since checkpoint-5: --per_device_train_batch_size 4 → 2");
  EXPECT_EQ(lines[1], "changed since checkpoint-5: --gradient_accumulation_steps 1 → 2");
  // Steps 4 and 5 are the checkpoint's sum; step 6 starts from the same weights and adds the losses of 4
  // samples, each behind sums of at most 61 · 24 terms in fp32.
  const auto loss_of_step_6 = [](const fs::path& directory) {
    return logged(load_trainer_state(directory / "trainer_state.json"), "loss").at(1);
  };
  const double expected = loss_of_step_6(whole() / "checkpoint-10");
  EXPECT_NEAR(loss_of_step_6(resumed() / "checkpoint-6"), expected, expected * 61 * 24 * 0x1p-24);
}

// What the checkpoint calls its best was measured on other data.
TEST_F(ResumeChanged, ABestModelOfOtherDataIsForgotten) {
  const auto evaluates = [](TrainingArguments& a) {
    a.eval_strategy = "steps";
    a.eval_steps = 5;
    a.metric_for_best_model = "loss";
  };
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer(model, arguments_of({"", evaluates}, whole()), tiny_samples(28, 3), tiny_samples(11, 6)).train();
  const auto is_forgotten = [&](Dataset evaluation) {
    const std::vector<std::string> lines = resume(evaluates, tiny_samples(28, 3), std::move(evaluation));
    return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
      return contains(line, "the best model so far does not count");
    });
  };
  EXPECT_FALSE(is_forgotten(tiny_samples(11, 6)));
  EXPECT_TRUE(is_forgotten(tiny_samples(11, 7)));
}

// A checkpoint of adapters holds adapters only: on another base they mean something else.
TEST_F(ResumeChanged, AnotherBaseUnderAdaptersIsRefused) {
  const Setting lora{"", [](TrainingArguments& a) { a.lora_rank = 4; }};
  const fs::path base = base_for(arguments_of(lora, whole()), directory_.path());
  train(arguments_of(lora, whole()), base);
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments other_seed = quiet_arguments();
  other_seed.seed = 7;
  Trainer(model, other_seed, tiny_samples(4, 1)).save_model(base);
  TrainingArguments args = arguments_of(lora, resumed());
  args.resume_from_checkpoint = (whole() / "checkpoint-5").string();
  EXPECT_TRUE(contains(message_of<UserError>([&] { train(args, base); }),
                       "other numerics: weights of the base model"));
}

TEST_F(ResumeRefusal, WeightsWithoutOptimizerStateAreNotEnough) {
  fs::remove_all(directory_.path());
  TrainingArguments args = arguments();
  args.save_only_model = true;
  train(args);
  EXPECT_FALSE(fs::exists(directory_.path() / "checkpoint-12/optimizer.safetensors"));
  EXPECT_TRUE(contains(refusal([](TrainingArguments&) {}), "optimizer state"));
}

// What was cut short is passed over with a notice, and the run goes on from the checkpoint before it to the
// same end.
TEST_F(ResumeRefusal, DamagedCheckpointIsSkipped) {
  const std::string weights = read_text_file(directory_.path() / "checkpoint-12/model.safetensors");
  fs::resize_file(directory_.path() / "checkpoint-12/model.safetensors", 1000);
  TrainingArguments args = arguments();
  args.resume_from_checkpoint = "true";
  std::vector<std::string> lines;
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer trainer(model, args, tiny_samples(28, 3), {},
                  {.on_line = [&](const std::string& line) { lines.push_back(line); }});
  trainer.train();
  ASSERT_GE(lines.size(), 2U);
  EXPECT_TRUE(contains(lines[0], "checkpoint-12 is skipped"));
  EXPECT_TRUE(contains(lines[1], "at step 10"));
  EXPECT_TRUE(weights == read_text_file(directory_.path() / "checkpoint-12/model.safetensors"));
}

// What is changed since a checkpoint that turns out to be damaged as its tensors are loaded is not said.
TEST_F(ResumeRefusal, ChangesSinceADamagedCheckpointAreNotShown) {
  const fs::path damaged = directory_.path() / "checkpoint-12/model.safetensors";
  flip_bit(damaged, static_cast<int64_t>(fs::file_size(damaged)) * 8 - 1);
  TrainingArguments args = arguments();
  args.resume_from_checkpoint = "true";
  args.max_steps = 14;
  std::vector<std::string> lines;
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer trainer(model, args, tiny_samples(28, 3), {},
                  {.on_line = [&](const std::string& line) { lines.push_back(line); }});
  trainer.train();
  ASSERT_EQ(lines.size(), 3U) << fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_TRUE(contains(lines[0], "checkpoint-12"));
  EXPECT_EQ(lines[1], "changed since checkpoint-10: --max_steps 12 → 14");
  EXPECT_TRUE(contains(lines[2], "at step 10"));
}

}  // namespace
}  // namespace shoehorn
