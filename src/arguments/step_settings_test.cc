#include "arguments/step_settings.h"

#include <gtest/gtest.h>

#include "base/error_testing.h"
#include "io/file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

TEST(StepSettings, DefaultsAreTheTrainers) {
  const StepOptions step = step_options_of({});
  EXPECT_EQ(step.precision, Precision::kFloat32);
  EXPECT_EQ(step.master_weights, MasterWeights::kFloat32);
  EXPECT_EQ(step.gradient_accumulation_steps, 1);
  EXPECT_EQ(step.accumulation_order, AccumulationOrder::kMicroBatch);
  EXPECT_EQ(step.recompute_every_n_layers, 0);
  EXPECT_EQ(step.max_grad_norm, 1.0F);
  EXPECT_EQ(step.seed, 42U);
  EXPECT_TRUE(step.skip_passes.empty());
  const auto& adamw = std::get<AdamWSettings>(step.optimizer.settings);
  EXPECT_EQ(adamw.beta1, 0.9);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.epsilon, 1e-8);
}

TEST(StepSettings, TheLossScaleArrives) {
  TrainingArguments args;
  args.fp16 = true;
  args.bf16_full_eval = true;
  args.initial_scale_power = 8;
  args.loss_scale_window = 100;
  args.hysteresis = 3;
  args.min_loss_scale = 2;
  const StepOptions step = step_options_of(args);
  EXPECT_EQ(step.precision, Precision::kFloat16);
  EXPECT_EQ(step.evaluation_precision, Precision::kBfloat16);
  EXPECT_EQ(step.loss_scale.fixed, 0);
  EXPECT_EQ(step.loss_scale.initial, 256);
  EXPECT_EQ(step.loss_scale.growth_interval, 100);
  EXPECT_EQ(step.loss_scale.hysteresis, 3);
  EXPECT_EQ(step.loss_scale.minimum, 2);
  args.loss_scale = 64;
  EXPECT_EQ(step_options_of(args).loss_scale.fixed, 64);
}

TEST(StepSettings, ActivationBudgetIsAFractionOrBytes) {
  TrainingArguments args;
  EXPECT_EQ(step_options_of(args).activation_budget, std::nullopt);
  const auto budget = [&](const std::string& text) {
    args.activation_budget = text;
    return *step_options_of(args).activation_budget;
  };
  EXPECT_EQ(budget("0.25"), (ActivationBudget{.fraction = 0.25}));
  EXPECT_EQ(budget("0"), (ActivationBudget{.fraction = 0}));
  EXPECT_EQ(budget("1.5MiB"), (ActivationBudget{.bytes = 3 << 19}));
  EXPECT_EQ(budget("4096B"), (ActivationBudget{.bytes = 4096}));
  EXPECT_EQ(budget("2097152"), (ActivationBudget{.bytes = 1 << 21}));
  for (const char* text : {"-0.5", "0.5B", "500", "1.5"}) {
    args.activation_budget = text;
    EXPECT_TRUE(contains(refusal_of([&] { step_options_of(args); }),
                         "[--activation_budget] expected bytes, as 1.5GiB, or a fraction from 0 to 1"))
        << text;
  }
  args.activation_budget = "half";
  EXPECT_TRUE(contains(refusal_of([&] { step_options_of(args); }), "--activation_budget"));
  args.activation_budget = "0.5";
  args.gradient_checkpointing = true;
  EXPECT_TRUE(contains(refusal_of([&] { step_options_of(args); }), "--gradient_checkpointing"));
  args.gradient_checkpointing = false;
  args.recompute_set = "set.json";
  EXPECT_TRUE(contains(refusal_of([&] { step_options_of(args); }), "--recompute_set"));
}

TEST(StepSettings, RecomputeSetIsAListOrAPlan) {
  const TestDirectory directory;
  TrainingArguments args;
  args.recompute_set = (directory.path() / "set.json").string();
  EXPECT_TRUE(contains(refusal_of([&] { step_options_of(args); }), "set.json")) << "there is no file";
  const std::set<std::string> names = {"layer.0.attention.qkv", "layer.1.attention.qkv"};
  for (const char* text :
       {R"(["layer.1.attention.qkv", "layer.0.attention.qkv"])",
        R"({"fits": true, "recompute_set": ["layer.0.attention.qkv", "layer.1.attention.qkv"]})"}) {
    write_text_atomic(args.recompute_set, text);
    EXPECT_EQ(step_options_of(args).recompute_set, names) << text;
  }
  for (const char* text : {"{}", "[1]", R"({"recompute_set": "all"})"}) {
    write_text_atomic(args.recompute_set, text);
    EXPECT_TRUE(contains(refusal_of([&] { step_options_of(args); }), "JSON array of names")) << text;
  }
}

TEST(StepSettings, EveryArgumentArrives) {
  TrainingArguments args;
  args.bf16 = true;
  args.master_weights = "none";
  args.gradient_accumulation_steps = 4;
  args.accumulation_order = "layer_major";
  args.gradient_checkpointing = true;
  args.gradient_checkpointing_kwargs = {{"every_n_layers", int64_t{3}}};
  args.update_in_backward = true;
  args.freeze = {"embeddings"};
  args.lora_rank = 4;
  args.lora_alpha = 6;
  args.lora_dropout = 0.25;
  args.lora_target = {"key"};
  args.lora_modules_to_save = {"pooler"};
  args.max_grad_norm = 0;
  args.label_smoothing_factor = 0.25;
  args.z_loss = 0.125;
  args.neftune_noise_alpha = 5;
  args.seed = 7;
  args.skip_pass = {"rematerialize"};
  args.torch_compile_backend = "eager";
  args.dump_program = "programs";
  args.weight_decay = 0.5;
  args.adam_beta1 = 0.8;
  args.adam_beta2 = 0.95;
  args.adam_epsilon = 1e-6;
  const StepOptions step = step_options_of(args);
  EXPECT_EQ(step.precision, Precision::kBfloat16);
  EXPECT_EQ(step.master_weights, MasterWeights::kNone);
  EXPECT_EQ(step.gradient_accumulation_steps, 4);
  EXPECT_EQ(step.accumulation_order, AccumulationOrder::kLayer);
  EXPECT_EQ(step.recompute_every_n_layers, 3);
  EXPECT_TRUE(step.update_in_backward);
  EXPECT_EQ(step.freeze, std::vector<std::string>{"embeddings"});
  EXPECT_EQ(step.lora.rank, 4);
  EXPECT_EQ(step.lora.alpha, 6);
  EXPECT_EQ(step.lora.dropout, 0.25F);
  EXPECT_EQ(step.lora.targets, std::vector<std::string>{"key"});
  EXPECT_EQ(step.lora.modules_to_save, std::vector<std::string>{"pooler"});
  EXPECT_EQ(step.max_grad_norm, 0);
  EXPECT_EQ(step.label_smoothing, 0.25F);
  EXPECT_EQ(step.z_loss, 0.125F);
  EXPECT_EQ(step.neftune_noise_alpha, 5);
  EXPECT_EQ(step.seed, 7U);
  EXPECT_EQ(step.skip_passes, (std::set<std::string>{"fuse", "rematerialize"}));
  EXPECT_EQ(step.dump_directory, "programs");
  EXPECT_EQ(step.optimizer.weight_decay, 0.5F);
  const auto& adamw = std::get<AdamWSettings>(step.optimizer.settings);
  EXPECT_EQ(adamw.beta1, 0.8);
  EXPECT_EQ(adamw.beta2, 0.95);
  EXPECT_EQ(adamw.epsilon, 1e-6);
}

TEST(StepSettings, EachOptimizerReadsItsOptions) {
  TrainingArguments args;
  args.optim = "sgd";
  args.optim_args = {{"momentum", 0.75}, {"nesterov", true}};
  const auto sgd = std::get<SgdSettings>(step_options_of(args).optimizer.settings);
  EXPECT_EQ(sgd.momentum, 0.75);
  EXPECT_TRUE(sgd.nesterov);
  args.optim_args = {{"momentun", 0.9}};
  EXPECT_THROW(step_options_of(args), UserError);

  args.optim = "adagrad";
  args.optim_args = {{"lr_decay", 0.5}, {"eps", 1e-4}};
  const auto adagrad = std::get<AdagradSettings>(step_options_of(args).optimizer.settings);
  EXPECT_EQ(adagrad.lr_decay, 0.5);
  EXPECT_EQ(adagrad.epsilon, 1e-4);

  args.optim = "rmsprop";
  args.optim_args = {{"momentum", 0.5}, {"alpha", 0.25}, {"eps", 1e-5}, {"centered", true}};
  const auto rmsprop = std::get<RmsPropSettings>(step_options_of(args).optimizer.settings);
  EXPECT_EQ(rmsprop.momentum, 0.5);
  EXPECT_EQ(rmsprop.alpha, 0.25);
  EXPECT_EQ(rmsprop.epsilon, 1e-5);
  EXPECT_TRUE(rmsprop.centered);

  args.optim = "adafactor";
  args.optim_args = {};
  auto adafactor = std::get<AdafactorSettings>(step_options_of(args).optimizer.settings);
  EXPECT_FALSE(adafactor.scale_parameter || adafactor.relative_step || adafactor.beta1.has_value())
      << "as the Trainer creates it";
  args.optim_args = {{"eps1", 1e-20},         {"eps2", 1e-2},       {"clip_threshold", 2.0},
                     {"decay_rate", -0.5},    {"beta1", 0.9},       {"scale_parameter", true},
                     {"relative_step", true}, {"warmup_init", true}};
  adafactor = std::get<AdafactorSettings>(step_options_of(args).optimizer.settings);
  EXPECT_EQ(adafactor.gradient_epsilon, 1e-20);
  EXPECT_EQ(adafactor.parameter_epsilon, 1e-2);
  EXPECT_EQ(adafactor.clip_threshold, 2.0);
  EXPECT_EQ(adafactor.decay_rate, -0.5);
  EXPECT_EQ(adafactor.beta1, 0.9);
  EXPECT_TRUE(adafactor.scale_parameter && adafactor.relative_step && adafactor.warmup_init);
  args.optim_args = {{"warmup_init", true}};
  EXPECT_THROW(step_options_of(args), UserError);

  args.optim = "adalomo";
  args.optim_args = {};
  EXPECT_TRUE(std::get<AdafactorSettings>(step_options_of(args).optimizer.settings).scale_parameter);
  args.optim = "lomo";
  EXPECT_EQ(std::get<SgdSettings>(step_options_of(args).optimizer.settings).momentum, 0);
  args.optim_args = {{"momentum", 0.9}};
  EXPECT_THROW(step_options_of(args), UserError);

  args.optim = "lion_32bit";
  args.optim_args = {};
  const auto lion = std::get<LionSettings>(step_options_of(args).optimizer.settings);
  EXPECT_EQ(lion.beta2, 0.999) << "the Trainer gives it Adam's";
  args.optim_args = {{"momentum", 0.9}};
  EXPECT_THROW(step_options_of(args), UserError);
}

TEST(StepSettings, EightBitOptimizersSayWhatKeepsThem) {
  TrainingArguments args;
  args.adam_epsilon = 1e-6;
  for (const char* name : {"adamw_8bit", "adamw_bnb_8bit"}) {
    args.optim = name;
    const auto adamw = std::get<AdamW8bitSettings>(step_options_of(args).optimizer.settings);
    EXPECT_EQ(adamw.adamw.epsilon, 1e-6);
    EXPECT_EQ(adamw.states.least_elements, 4096);
    EXPECT_FALSE(adamw.states.of_embeddings) << "the Trainer keeps them in 32 bits";
    EXPECT_EQ(optimizer_name(args), "adamw_8bit") << "two names of one";
  }
  args.optim = "lion_8bit";
  args.optim_args = {{"embedding_bits", int64_t{8}}, {"min_8bit_size", int64_t{100}}};
  const auto lion = std::get<Lion8bitSettings>(step_options_of(args).optimizer.settings);
  EXPECT_EQ(lion.lion.beta2, 0.999) << "the Trainer gives it Adam's";
  EXPECT_EQ(lion.states.least_elements, 100);
  EXPECT_TRUE(lion.states.of_embeddings);
  for (const Kwargs& wrong :
       {Kwargs{{"embedding_bits", int64_t{16}}}, Kwargs{{"min_8bit_size", 0.5}}, Kwargs{{"momentum", 0.9}}}) {
    args.optim_args = wrong;
    EXPECT_THROW(step_options_of(args), UserError);
  }
}

}  // namespace
}  // namespace shoehorn
