#include "train/step_settings.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shoehorn {
namespace {

TEST(StepSettings, DefaultsAreTheTrainers) {
  const StepOptions step = step_options_of({});
  EXPECT_EQ(step.precision, Precision::kFloat32);
  EXPECT_EQ(step.gradient_accumulation_steps, 1);
  EXPECT_EQ(step.accumulation_order, AccumulationOrder::kMicroBatch);
  EXPECT_EQ(step.recompute_every_n_layers, 0);
  EXPECT_EQ(step.max_grad_norm, 1.0F);
  EXPECT_EQ(step.seed, 42U);
  EXPECT_TRUE(step.skip_passes.empty());
  EXPECT_EQ(step.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(step.optimizer.beta1, 0.9);
  EXPECT_EQ(step.optimizer.beta2, 0.999);
  EXPECT_EQ(step.optimizer.epsilon, 1e-8);
}

TEST(StepSettings, EveryArgumentArrives) {
  TrainingArguments args;
  args.bf16 = true;
  args.gradient_accumulation_steps = 4;
  args.accumulation_order = "layer_major";
  args.gradient_checkpointing = true;
  args.gradient_checkpointing_kwargs = {{"every_n_layers", int64_t{3}}};
  args.update_in_backward = true;
  args.max_grad_norm = 0;
  args.label_smoothing_factor = 0.25;
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
  EXPECT_EQ(step.gradient_accumulation_steps, 4);
  EXPECT_EQ(step.accumulation_order, AccumulationOrder::kLayer);
  EXPECT_EQ(step.recompute_every_n_layers, 3);
  EXPECT_TRUE(step.update_in_backward);
  EXPECT_EQ(step.max_grad_norm, 0);
  EXPECT_EQ(step.label_smoothing, 0.25F);
  EXPECT_EQ(step.seed, 7U);
  EXPECT_EQ(step.skip_passes, (std::set<std::string>{"fuse", "rematerialize"}));
  EXPECT_EQ(step.dump_directory, "programs");
  EXPECT_EQ(step.optimizer.weight_decay, 0.5F);
  EXPECT_EQ(step.optimizer.beta1, 0.8);
  EXPECT_EQ(step.optimizer.beta2, 0.95);
  EXPECT_EQ(step.optimizer.epsilon, 1e-6);
}

TEST(StepSettings, Sgd) {
  TrainingArguments args;
  args.optim = "sgd";
  args.optim_args = {{"momentum", 0.9}, {"nesterov", true}};
  const StepOptions step = step_options_of(args);
  EXPECT_EQ(step.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(step.optimizer.momentum, 0.9F);
  EXPECT_TRUE(step.optimizer.nesterov);
  args.optim_args = {{"momentun", 0.9}};
  EXPECT_THROW(step_options_of(args), UserError);
}

}  // namespace
}  // namespace shoehorn
