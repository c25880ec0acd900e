// Rows of the table: the optimizer and its learning rate.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {
namespace {

constexpr std::string_view kLowRankGradients =
    "gradients are not projected to a low rank; adafactor and adamw_8bit have small states, --lora_rank trains few "
    "weights, and lomo and adalomo keep no gradients";
constexpr std::string_view kFewBits =
    "adamw_8bit, with embedding_bits=8 in --optim_args, has the smallest states of AdamW";
constexpr std::string_view kNoSchedule =
    "adamw_torch with --lr_scheduler_type constant_with_warmup is nearest";
constexpr std::string_view kOtherRule = "its rule is not built; adamw_torch and lion_32bit are nearest";

constexpr std::string_view kNotPaged =
    "optimizer state is not moved out of memory; adamw_8bit and lion_8bit keep it "
    "small";

std::vector<ArgumentChoice> optimizers() {
  std::vector<ArgumentChoice> choices = {
      {"adamw_torch_fused"}, {"adamw_torch"}, {"adamw_hf"}, {"adamw_apex_fused"}, {"adamw_8bit"},
      {"adamw_bnb_8bit"},    {"adafactor"},   {"adagrad"},  {"lion_32bit"},       {"lion_8bit"},
      {"rmsprop"},           {"sgd"},         {"lomo"},     {"adalomo"}};
  const auto append = [&choices](std::string_view why, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) choices.push_back({name, why});
  };
  append(kLowRankGradients,
         {"apollo_adamw", "apollo_adamw_layerwise", "galore_adafactor", "galore_adafactor_layerwise",
          "galore_adamw", "galore_adamw_8bit", "galore_adamw_8bit_layerwise", "galore_adamw_layerwise"});
  append(kFewBits, {"adamw_torch_4bit", "adamw_torch_8bit"});
  append("--bf16 --master_weights none with adamw_torch keeps weights in bfloat16 too",
         {"adamw_anyprecision"});
  append("rmsprop keeps its state in 32 bits, adamw_8bit in 8",
         {"rmsprop_bnb", "rmsprop_bnb_32bit", "rmsprop_bnb_8bit"});
  append(kNoSchedule, {"schedule_free_adamw", "schedule_free_radam", "schedule_free_sgd"});
  append(kOtherRule, {"ademamix", "ademamix_8bit", "grokadamw", "muon", "stable_adamw"});
  for (const std::string_view name : {"paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit",
                                      "paged_ademamix_8bit", "paged_lion_32bit", "paged_lion_8bit"}) {
    choices.push_back({name, kNotPaged});
  }
  choices.push_back({"adamw_torch_xla", kOtherDevice, kRefused});
  choices.push_back({"adamw_torch_npu_fused", kOtherDevice, kRefused});
  return choices;
}

std::vector<ArgumentChoice> schedulers() {
  std::vector<ArgumentChoice> choices;
  for (const std::string& name : schedule_names()) choices.push_back({name});
  choices.push_back({kReduceLrOnPlateau});
  choices.push_back({"greedy", "it follows a metric"});
  return choices;
}

}  // namespace

std::vector<ArgumentSpec> optimizer_and_schedule() {
  return {
      {.name = "optim",
       .group = kOptimizer,
       .is_common = true,
       .field = &Args::optim,
       .resume = kState,
       .help = "the optimizer; names with adamw are AdamW, and those with 8bit keep 8-bit states",
       .choices = optimizers()},
      {.name = "optim_args",
       .group = kOptimizer,
       .field = &Args::optim_args,
       .resume = kNumerics,
       .help = "as key=value,…; sgd: momentum, nesterov; adagrad: lr_decay, eps; rmsprop: momentum, alpha, "
               "eps, centered; adafactor: eps1, eps2, clip_threshold, decay_rate, beta1, scale_parameter, "
               "relative_step (its own rate, without learning_rate and schedule), warmup_init; adamw_8bit, "
               "lion_8bit: embedding_bits (8 or 32, the default), min_8bit_size (4096)"},
      {.name = "learning_rate",
       .group = kOptimizer,
       .is_common = true,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::learning_rate,
       .resume = kFree,
       .help = "the largest of the schedule"},
      {.name = "scale_learning_rate",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::scale_learning_rate,
       .resume = kFree,
       .help = "multiply it by effective batch / reference_batch_size, or by the root of that",
       .choices = {{"none"}, {"linear"}, {"sqrt"}}},
      {.name = "reference_batch_size",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::reference_batch_size,
       .resume = kFree,
       .help = "the effective batch that learning_rate was tuned for"},
      {.name = "weight_decay",
       .group = kOptimizer,
       .is_common = true,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::weight_decay,
       .resume = kFree,
       .help = "not for biases and norms; decoupled in AdamW"},
      {.name = "adam_beta1",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::adam_beta1,
       .resume = kNumerics,
       .help = "decay of the first moment"},
      {.name = "adam_beta2",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::adam_beta2,
       .resume = kNumerics,
       .help = "decay of the second moment"},
      {.name = "adam_epsilon",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::adam_epsilon,
       .resume = kNumerics,
       .help = "added to the root of the second moment"},
      {.name = "max_grad_norm",
       .group = kOptimizer,
       .field = &Args::max_grad_norm,
       .resume = kFree,
       .help = "clip the global norm of the gradient; 0 is off"},
      {.name = "max_grad_value",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::max_grad_value,
       .resume = kFree,
       .help = "cut each element of the gradient at this, after max_grad_norm; 0 is off"},
      {.name = "neftune_noise_alpha",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByPlan | kReadByBench,
       .field = &Args::neftune_noise_alpha,
       .resume = kNumerics,
       .help =
           "noise on the embeddings in training, uniform within ± this / √(tokens of the sequence · hidden size)"},
      {.name = "lr_scheduler_type",
       .group = kOptimizer,
       .is_common = true,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::lr_scheduler_type,
       .resume = kFree,
       .help = "how the learning rate moves: with the step, or (reduce_lr_on_plateau, without warm-up) with "
               "metric_for_best_model after each evaluation",
       .choices = schedulers()},
      {.name = "lr_scheduler_kwargs",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::lr_scheduler_kwargs,
       .resume = kFree,
       .help = "its options, as num_cycles=2 or JSON; reduce_lr_on_plateau: mode, factor, patience, "
               "threshold, threshold_mode, cooldown, min_lr, eps"},
      {.name = "warmup_steps",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::warmup_steps,
       .resume = kFree,
       .help = "steps of linear warm-up; below 1 a share of all steps"},
      {.name = "warmup_ratio",
       .group = kOptimizer,
       .is_common = true,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::warmup_ratio,
       .resume = kFree,
       .help = "the share of all steps that is warm-up, where warmup_steps is 0"},
  };
}

}  // namespace shoehorn::argument_rows
