// A run that stops at a checkpoint and goes on is the run that never stopped: every byte of weights,
// optimizer state, log and position, in the middle of an epoch, with dropout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "io/test_directory.h"
#include "resume_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

void expect_same_checkpoint(const fs::path& a, const fs::path& b) {
  const bool adapts = fs::exists(a / "adapter_config.json");
  EXPECT_NE(adapts, fs::exists(a / "model.safetensors")) << "adapters are saved without the model";
  for (const char* name : {adapts ? "adapter_model.safetensors" : "model.safetensors",
                           "optimizer.safetensors", "trainer_state.json", "shoehorn_state.json"}) {
    EXPECT_TRUE(read_text_file(a / name) == read_text_file(b / name))
        << name << " of " << a.filename() << " differs";
  }
}

class TrainResume : public testing::TestWithParam<Setting> {};

TEST_P(TrainResume, GoesOnBitForBit) {
  const TestDirectory directory;
  const fs::path whole = directory.path() / "whole";
  const fs::path resumed = directory.path() / "resumed";
  const fs::path base = base_for(arguments_of(GetParam(), whole), directory.path());
  train(arguments_of(GetParam(), whole), base);
  for (const char* step : {"checkpoint-5", "checkpoint-10", "checkpoint-12"})
    EXPECT_EQ(checkpoint_defect(whole / step), "");

  fs::create_directories(resumed);
  fs::copy(whole / "checkpoint-5", resumed / "checkpoint-5", fs::copy_options::recursive);
  TrainingArguments args = arguments_of(GetParam(), resumed);
  args.resume_from_checkpoint = "true";
  train(args, base);
  expect_same_checkpoint(whole / "checkpoint-10", resumed / "checkpoint-10");
  expect_same_checkpoint(whole / "checkpoint-12", resumed / "checkpoint-12");
  const TrainerState state = load_trainer_state(resumed / "checkpoint-12" / "trainer_state.json");
  EXPECT_EQ(logged(state, "loss").size(), 4U);
  EXPECT_EQ(logged(state, "step"), (std::vector<double>{3, 6, 9, 12}));
}

// What is recomputed changes no bit, so that a run may go on with another set, or with none.
TEST(TrainResumeWithAnotherRecomputeSet, GoesOnBitForBit) {
  const TestDirectory directory;
  const fs::path whole = directory.path() / "whole";
  const auto args_in = [](const fs::path& output, const std::string& budget) {
    return arguments_of({"", [&](TrainingArguments& a) { a.activation_budget = budget; }}, output);
  };
  train(args_in(whole, "0.5"), {});
  int number = 0;
  for (const char* budget : {"0.25", ""}) {
    const fs::path resumed = directory.path() / fmt::format("resumed-{}", number++);
    fs::create_directories(resumed);
    fs::copy(whole / "checkpoint-5", resumed / "checkpoint-5", fs::copy_options::recursive);
    TrainingArguments args = args_in(resumed, budget);
    args.resume_from_checkpoint = "true";
    train(args, {});
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(read_text_file(whole / "checkpoint-12" / file) ==
                  read_text_file(resumed / "checkpoint-12" / file))
          << file << " with '" << budget << "'";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, TrainResume,
    testing::Values(Setting{"fp32", [](TrainingArguments&) {}},
                    Setting{"bf16", [](TrainingArguments& a) { a.bf16 = true; }},
                    Setting{"fp32_accumulation",
                            [](TrainingArguments& a) { a.gradient_accumulation_steps = 2; }},
                    Setting{"bf16_accumulation",
                            [](TrainingArguments& a) {
                              a.bf16 = true;
                              a.gradient_accumulation_steps = 2;
                            }},
                    Setting{"fp32_layer_major",
                            [](TrainingArguments& a) {
                              a.gradient_accumulation_steps = 2;
                              a.accumulation_order = "layer_major";
                            }},
                    Setting{"bf16_layer_major_recompute",
                            [](TrainingArguments& a) {
                              a.bf16 = true;
                              a.gradient_accumulation_steps = 2;
                              a.accumulation_order = "layer_major";
                              a.gradient_checkpointing = true;
                            }},
                    Setting{"sgd_by_length_with_worker",
                            [](TrainingArguments& a) {
                              a.optim = "sgd";
                              a.optim_args = {{"momentum", 0.9}};
                              a.train_sampling_strategy = "group_by_length";
                              a.dataloader_num_workers = 1;
                            }},
                    Setting{"adafactor_bf16",
                            [](TrainingArguments& a) {
                              a.optim = "adafactor";
                              a.optim_args = {{"beta1", 0.9}, {"scale_parameter", true}};
                              a.bf16 = true;
                            }},
                    Setting{"adamw_8bit_bf16_layer_major",
                            [](TrainingArguments& a) {
                              a.optim = "adamw_8bit";
                              a.optim_args = {{"min_8bit_size", int64_t{64}}};
                              a.bf16 = true;
                              a.gradient_accumulation_steps = 2;
                              a.accumulation_order = "layer_major";
                            }},
                    Setting{"lion_8bit_in_backward",
                            [](TrainingArguments& a) {
                              a.optim = "lion_8bit";
                              a.optim_args["min_8bit_size"] = int64_t{64};
                              a.optim_args["embedding_bits"] = int64_t{8};
                              a.max_grad_norm = 0;
                              a.update_in_backward = true;
                            }},
                    Setting{"frozen_bf16",
                            [](TrainingArguments& a) {
                              a.freeze = {R"(layer\.0\.)"};
                              a.bf16 = true;
                            }},
                    Setting{"no_masters_accumulation",
                            [](TrainingArguments& a) {
                              a.bf16 = true;
                              a.master_weights = "none";
                              a.gradient_accumulation_steps = 2;
                            }},
                    Setting{"no_masters_8bit_in_layer_major_backward",
                            [](TrainingArguments& a) {
                              a.optim = "adamw_8bit";
                              a.optim_args["min_8bit_size"] = int64_t{64};
                              a.optim_args["embedding_bits"] = int64_t{8};
                              a.bf16 = true;
                              a.master_weights = "none";
                              a.gradient_accumulation_steps = 2;
                              a.accumulation_order = "layer_major";
                              a.max_grad_norm = 0;
                              a.update_in_backward = true;
                            }},
                    Setting{"no_masters_adafactor",
                            [](TrainingArguments& a) {
                              a.optim = "adafactor";
                              a.optim_args = {{"scale_parameter", true}};
                              a.bf16 = true;
                              a.master_weights = "none";
                            }},
                    Setting{"adamw_8bit_fp16",
                            [](TrainingArguments& a) {
                              a.optim = "adamw_8bit";
                              a.optim_args = {{"min_8bit_size", int64_t{64}}};
                              a.fp16 = true;
                              a.initial_scale_power = 24;
                            }},
                    Setting{"fp16",
                            [](TrainingArguments& a) {
                              a.fp16 = true;
                              a.initial_scale_power = 20;  // overflows at first …
                              a.loss_scale_window = 4;     // … and grows again
                            }},
                    Setting{"fp16_accumulation",
                            [](TrainingArguments& a) {
                              a.fp16 = true;
                              a.initial_scale_power = 24;
                              a.hysteresis = 2;
                              a.gradient_accumulation_steps = 2;
                            }},
                    // 4 samples a step up to sample 20, 8 up to 60, then 12: step 5 is the last of the
                    // first stage, and in the middle of an epoch.
                    Setting{"batch_size_ramp",
                            [](TrainingArguments& a) {
                              a.gradient_accumulation_steps = 3;
                              a.batch_size_ramp = {"0:4", "20:8", "60:12"};
                            }},
                    Setting{"batch_size_ramp_layer_major_with_worker",
                            [](TrainingArguments& a) {
                              a.gradient_accumulation_steps = 3;
                              a.batch_size_ramp = {"0:4", "16:8", "60:12"};
                              a.accumulation_order = "layer_major";
                              a.max_grad_norm = 0;
                              a.update_in_backward = true;
                              a.dataloader_num_workers = 1;
                            }},
                    Setting{"noisy_embeddings_accumulation",
                            [](TrainingArguments& a) {
                              a.neftune_noise_alpha = 5;
                              a.gradient_accumulation_steps = 2;
                            }},
                    Setting{"lora",
                            [](TrainingArguments& a) {
                              a.lora_rank = 4;
                              a.lora_dropout = 0.1;
                            }},
                    Setting{"lora_bf16_accumulation_8bit",
                            [](TrainingArguments& a) {
                              a.lora_rank = 4;
                              a.lora_target = {"all-linear"};
                              a.bf16 = true;
                              a.gradient_accumulation_steps = 2;
                              a.optim = "adamw_8bit";
                              a.optim_args = {{"min_8bit_size", int64_t{64}}};
                            }},
                    Setting{"rmsprop",
                            [](TrainingArguments& a) {
                              a.optim = "rmsprop";
                              a.optim_args = {{"momentum", 0.9}, {"centered", true}};
                            }}),
    [](const auto& info) { return info.param.name; });

// A frozen weight is 16 bits in memory and all of its original in every checkpoint: of the run that read the
// model, and of the one that goes on, whose originals are a checkpoint that it removes meanwhile.
TEST(TrainResumeFrozen, OriginalsGoFromFileToFile) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(0.1F), R"({"model_type": "bert"})");
  const fs::path start = directory.path() / "start";
  fs::create_directories(start);
  Trainer(model, quiet_arguments(4), tiny_samples(8, 3)).save_model(start);
  const Setting frozen{"", [](TrainingArguments& a) {
                         a.freeze = {R"(layer\.0\.)"};
                         a.bf16 = true;
                       }};
  const fs::path whole = directory.path() / "whole";
  train(arguments_of(frozen, whole), start);
  const fs::path resumed = directory.path() / "resumed";
  fs::create_directories(resumed);
  fs::copy(whole / "checkpoint-5", resumed / "checkpoint-5", fs::copy_options::recursive);
  TrainingArguments args = arguments_of(frozen, resumed);
  args.resume_from_checkpoint = "true";
  args.save_total_limit = 1;
  train(args, start);
  EXPECT_FALSE(fs::exists(resumed / "checkpoint-5"));
  expect_same_checkpoint(whole / "checkpoint-12", resumed / "checkpoint-12");
  const SafetensorsModel before = SafetensorsModel::open(start);
  const SafetensorsModel after = SafetensorsModel::open(resumed / "checkpoint-12");
  for (const std::string& name : before.names()) {
    ASSERT_EQ(after.tensor(name).dtype, DType::kF32) << name;
    std::vector<std::byte> a(static_cast<size_t>(before.tensor(name).bytes));
    std::vector<std::byte> b(a.size());
    before.read_into(name, a);
    after.read_into(name, b);
    EXPECT_EQ(a == b, name.find("layer.0.") != std::string::npos) << name;
  }
}

// The rate falls after the evaluations of steps 4 and 9: from the second on none is better. At step 3 bad
// evaluations are counted, at step 5 it cools down, at step 8 one evaluation more decides.
TEST(TrainResumeReduceLrOnPlateau, GoesOnBitForBit) {
  const TestDirectory directory;
  const Setting plateau{"", [](TrainingArguments& a) {
                          a.lr_scheduler_type = "reduce_lr_on_plateau";
                          a.lr_scheduler_kwargs = {{"threshold_mode", std::string("abs")},
                                                   {"threshold", 10.0},
                                                   {"patience", int64_t{2}},
                                                   {"cooldown", int64_t{2}},
                                                   {"factor", 0.5}};
                          a.eval_strategy = "steps";
                          a.eval_steps = a.logging_steps = a.save_steps = 1;
                        }};
  const auto run = [](const TrainingArguments& args) {
    const BertForSequenceClassification model(tiny_bert(0.1F));
    Trainer trainer(model, args, tiny_samples(28, 3), tiny_samples(11, 6));
    EXPECT_EQ(trainer.train().global_step, 12);
    return trainer.state();
  };
  const fs::path whole = directory.path() / "whole";
  const TrainerState expected = run(arguments_of(plateau, whole));
  EXPECT_EQ(logged(expected, "learning_rate"), (std::vector<double>{1e-3, 1e-3, 1e-3, 1e-3, 5e-4, 5e-4, 5e-4,
                                                                    5e-4, 5e-4, 2.5e-4, 2.5e-4, 2.5e-4}));
  for (const char* start : {"checkpoint-3", "checkpoint-5", "checkpoint-8"}) {
    SCOPED_TRACE(start);
    TrainingArguments args = arguments_of(plateau, directory.path() / "resumed" / start);
    args.save_steps = 100;  // the last step only
    args.resume_from_checkpoint = (whole / start).string();
    const TrainerState state = run(args);
    for (const char* key : {"loss", "learning_rate", "grad_norm", "eval_loss"})
      EXPECT_EQ(logged(state, key), logged(expected, key)) << key;
    // trainer_state.json has the seconds of evaluations.
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "shoehorn_state.json"}) {
      EXPECT_TRUE(read_text_file(whole / "checkpoint-12" / name) ==
                  read_text_file(fs::path(args.output_dir) / "checkpoint-12" / name))
          << name;
    }
  }
}

}  // namespace
}  // namespace shoehorn
