// Rows of the table: what training computes and in what memory.
#include "train/argument_table.h"

namespace shoehorn::argument_rows {
namespace {

using Args = TrainingArguments;
using enum ArgumentGroup;
using enum ArgumentKind;
using enum ArgumentStatus;

constexpr std::string_view kNotBuilt = "not in this version yet";
constexpr std::string_view kNotPaged =
    "not in this version yet: optimizer state is not moved out of memory; adamw_8bit and lion_8bit keep it "
    "small";
constexpr std::string_view kOtherDevice = "refused: there is no TPU, NPU or XLA backend";

std::vector<ArgumentChoice> optimizers() {
  std::vector<ArgumentChoice> choices = {
      {"adamw_torch_fused"}, {"adamw_torch"}, {"adamw_hf"}, {"adamw_apex_fused"}, {"adamw_8bit"},
      {"adamw_bnb_8bit"},    {"adafactor"},   {"adagrad"},  {"lion_32bit"},       {"lion_8bit"},
      {"rmsprop"},           {"sgd"},         {"lomo"},     {"adalomo"}};
  for (const std::string_view name : {"adamw_anyprecision",
                                      "adamw_torch_4bit",
                                      "adamw_torch_8bit",
                                      "ademamix",
                                      "ademamix_8bit",
                                      "apollo_adamw",
                                      "apollo_adamw_layerwise",
                                      "galore_adafactor",
                                      "galore_adafactor_layerwise",
                                      "galore_adamw",
                                      "galore_adamw_8bit",
                                      "galore_adamw_8bit_layerwise",
                                      "galore_adamw_layerwise",
                                      "grokadamw",
                                      "muon",
                                      "rmsprop_bnb",
                                      "rmsprop_bnb_32bit",
                                      "rmsprop_bnb_8bit",
                                      "schedule_free_adamw",
                                      "schedule_free_radam",
                                      "schedule_free_sgd",
                                      "stable_adamw"}) {
    choices.push_back({name, kNotBuilt});
  }
  for (const std::string_view name : {"paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit",
                                      "paged_ademamix_8bit", "paged_lion_32bit", "paged_lion_8bit"}) {
    choices.push_back({name, kNotPaged});
  }
  choices.push_back({"adamw_torch_xla", kOtherDevice});
  choices.push_back({"adamw_torch_npu_fused", kOtherDevice});
  return choices;
}

std::vector<ArgumentChoice> schedulers() {
  std::vector<ArgumentChoice> choices;
  for (const std::string& name : schedule_names()) choices.push_back({name});
  choices.push_back({kReduceLrOnPlateau});
  choices.push_back({"greedy", "not in this version yet: it follows a metric"});
  return choices;
}

std::vector<ArgumentSpec> batch_and_precision() {
  return {
      {.name = "per_device_train_batch_size",
       .group = kBatch,
       .field = &Args::per_device_train_batch_size,
       .help = "sequences in a micro-batch",
       .aliases = {"per_gpu_train_batch_size"}},
      {.name = "per_device_eval_batch_size",
       .group = kBatch,
       .field = &Args::per_device_eval_batch_size,
       .help = "sequences in an evaluation batch",
       .aliases = {"per_gpu_eval_batch_size"}},
      {.name = "gradient_accumulation_steps",
       .group = kBatch,
       .field = &Args::gradient_accumulation_steps,
       .help = "micro-batches in an optimizer step; losses are normalised over all of them"},
      {.name = "batch_size_ramp",
       .group = kBatch,
       .field = &Args::batch_size_ramp,
       .help = "SAMPLES:BATCH,…: an effective batch that grows to the full one, as 0:4,400:8,1200:16; from "
               "so many "
               "samples on so large",
       .aliases = {"step_batch_size_schedule"}},
      {.name = "num_train_epochs",
       .group = kBatch,
       .field = &Args::num_train_epochs,
       .help = "passes over the training data; may be a fraction"},
      {.name = "max_steps",
       .group = kBatch,
       .field = &Args::max_steps,
       .help = "optimizer steps; above 0 it overrides num_train_epochs"},
      {.name = "auto_find_batch_size",
       .group = kBatch,
       .field = &Args::auto_find_batch_size,
       .help = "a smaller micro-batch where the one asked for does not fit, found by planning"},
      {.name = "average_tokens_across_devices",
       .group = kBatch,
       .field = &Args::average_tokens_across_devices,
       .help = "losses are normalised over the whole effective batch",
       .status = kRefused,
       .why = "losses are always normalised over the whole effective batch"},

      {.name = "bf16",
       .group = kPrecision,
       .field = &Args::bf16,
       .help = "bfloat16 products, fp32 master weights and optimizer"},
      {.name = "master_weights",
       .group = kPrecision,
       .field = &Args::master_weights,
       .help = "of bf16; none: weights are bfloat16 alone, 2 bytes less, and updates round stochastically",
       .choices = {{"fp32"}, {"none"}}},
      {.name = "bf16_full_eval",
       .group = kPrecision,
       .field = &Args::bf16_full_eval,
       .help = "evaluate and predict with bfloat16 weights in products"},
      {.name = "fp16",
       .group = kPrecision,
       .field = &Args::fp16,
       .help = "float16 products, fp32 master weights and optimizer, loss scale"},
      {.name = "fp16_full_eval",
       .group = kPrecision,
       .field = &Args::fp16_full_eval,
       .help = "evaluate and predict with float16 weights in products"},
      {.name = "tf32",
       .group = kPrecision,
       .field = &Args::tf32,
       .status = kNotYet,
       .why = "it needs an NVIDIA GPU of the Ampere generation or later; a CPU's products are fp32, bf16 or "
              "fp16"},
      {.name = "loss_scale",
       .group = kPrecision,
       .field = &Args::loss_scale,
       .help = "of fp16: a fixed scale of the loss; 0: a dynamic one"},
      {.name = "initial_scale_power",
       .group = kPrecision,
       .field = &Args::initial_scale_power,
       .help = "a dynamic loss scale starts at 2 to this power"},
      {.name = "loss_scale_window",
       .group = kPrecision,
       .field = &Args::loss_scale_window,
       .help = "it doubles after so many applied steps in a row"},
      {.name = "hysteresis",
       .group = kPrecision,
       .field = &Args::hysteresis,
       .help = "it halves at this overflow since it doubled, and at each one after that"},
      {.name = "min_loss_scale",
       .group = kPrecision,
       .field = &Args::min_loss_scale,
       .help = "it is never below this"},
  };
}

std::vector<ArgumentSpec> memory_and_speed() {
  return {
      {.name = "memory_budget",
       .group = kMemory,
       .field = &Args::memory_budget,
       .kind = kBytes,
       .help = "most memory the whole process may take, as 6GiB; a plan beyond it is refused before it runs"},
      {.name = "gradient_checkpointing",
       .group = kMemory,
       .field = &Args::gradient_checkpointing,
       .help = "recompute activations in the backward pass; bit-identical",
       .aliases = {"activation_checkpointing"}},
      {.name = "gradient_checkpointing_kwargs",
       .group = kMemory,
       .field = &Args::gradient_checkpointing_kwargs,
       .help =
           "every_n_layers=N: keep the input of each Nth layer only; sqrt: N is the root of their number, "
           "rounded",
       .aliases = {"activation_checkpointing_kwargs"}},
      {.name = "freeze",
       .group = kMemory,
       .field = &Args::freeze,
       .help = "regular expressions: parameters whose name has such a part are not trained"},
      {.name = "accumulation_order",
       .group = kMemory,
       .field = &Args::accumulation_order,
       .help = "layer_major: all micro-batches pass backward through a layer before the next layer",
       .choices = {{"micro_batch"}, {"layer_major"}}},
      {.name = "update_in_backward",
       .group = kMemory,
       .field = &Args::update_in_backward,
       .help = "use and free each gradient as soon as it exists; needs max_grad_norm 0"},
      {.name = "torch_compile",
       .group = kMemory,
       .field = &Args::torch_compile,
       .help = "accepted; the training step is always compiled"},
      {.name = "torch_compile_backend",
       .group = kMemory,
       .field = &Args::torch_compile_backend,
       .help = "eager and aot_eager: the unfused reference run, for debugging",
       .aliases = {"torchdynamo"},
       .choices = {{"inductor"},
                   {"eager"},
                   {"aot_eager"},
                   {"cudagraphs", "it needs an NVIDIA backend"},
                   {"aot_cudagraphs", "it needs an NVIDIA backend"},
                   {"nvfuser", "refused: our own fusion runs instead; use inductor"},
                   {"aot_nvfuser", "refused: our own fusion runs instead; use inductor"},
                   {"ofi", "refused: our own fusion runs instead; use inductor"},
                   {"fx2trt", "refused: no outside inference engine is called"},
                   {"onnxrt", "refused: no outside inference engine is called"},
                   {"ipex", "refused: our own kernels run instead; use inductor"},
                   {"openxla", kOtherDevice}}},
      {.name = "torch_compile_mode",
       .group = kMemory,
       .field = &Args::torch_compile_mode,
       .help = "accepted; there is one mode",
       .choices = {{"default"},
                   {"reduce-overhead", "it needs an NVIDIA backend"},
                   {"max-autotune", kNotBuilt},
                   {"max-autotune-no-cudagraphs", kNotBuilt}}},
      {.name = "use_liger_kernel",
       .group = kMemory,
       .field = &Args::use_liger_kernel,
       .help = "accepted; fused kernels always run"},
      {.name = "eval_accumulation_steps",
       .group = kMemory,
       .field = &Args::eval_accumulation_steps,
       .help = "accepted; evaluation counts as it goes and never gathers logits"},
      {.name = "batch_eval_metrics",
       .group = kMemory,
       .field = &Args::batch_eval_metrics,
       .help = "accepted; metrics are always counted batch by batch"},
      {.name = "prediction_loss_only",
       .group = kMemory,
       .field = &Args::prediction_loss_only,
       .help = "evaluate the loss only"},
      {.name = "skip_memory_metrics",
       .group = kMemory,
       .field = &Args::skip_memory_metrics,
       .help = "accepted; memory is always in the metrics"},
  };
}

std::vector<ArgumentSpec> adapters() {
  return {
      {.name = "lora_rank",
       .group = kAdapters,
       .field = &Args::lora_rank,
       .help = "train low-rank adapters of this rank and keep the model as it is; 0: off",
       .aliases = {"lora_r"}},
      {.name = "lora_alpha",
       .group = kAdapters,
       .field = &Args::lora_alpha,
       .help = "an adapter's output is multiplied by lora_alpha / lora_rank"},
      {.name = "lora_dropout",
       .group = kAdapters,
       .field = &Args::lora_dropout,
       .help = "dropout of what an adapter reads"},
      {.name = "lora_target",
       .group = kAdapters,
       .field = &Args::lora_target,
       .help =
           "linear layers with adapters, by the last parts of their names, or all-linear; query,value unless "
           "given",
       .aliases = {"lora_target_modules"}},
      {.name = "lora_modules_to_save",
       .group = kAdapters,
       .field = &Args::lora_modules_to_save,
       .help = "modules trained and saved whole, or none; the layer of the logits (classifier) unless given"},
      {.name = "lora_merge",
       .group = kAdapters,
       .field = &Args::lora_merge,
       .help = "write the whole model into output_dir, adapters merged in, instead of the adapters"},
  };
}

std::vector<ArgumentSpec> optimizer_and_schedule() {
  return {
      {.name = "optim",
       .group = kOptimizer,
       .field = &Args::optim,
       .help = "all AdamW names without 8bit are one AdamW, those with it another",
       .choices = optimizers()},
      {.name = "optim_args",
       .group = kOptimizer,
       .field = &Args::optim_args,
       .help = "as key=value,…; sgd: momentum, nesterov; adagrad: lr_decay, eps; rmsprop: momentum, alpha, "
               "eps, centered; adafactor: eps1, eps2, clip_threshold, decay_rate, beta1, scale_parameter, "
               "relative_step (its own rate, without learning_rate and schedule), warmup_init; adamw_8bit, "
               "lion_8bit: embedding_bits (8 or 32, the default), min_8bit_size (4096)"},
      {.name = "learning_rate",
       .group = kOptimizer,
       .field = &Args::learning_rate,
       .help = "the largest of the schedule"},
      {.name = "scale_learning_rate",
       .group = kOptimizer,
       .field = &Args::scale_learning_rate,
       .help = "multiply it by effective batch / reference_batch_size, or by the root of that",
       .choices = {{"none"}, {"linear"}, {"sqrt"}}},
      {.name = "reference_batch_size",
       .group = kOptimizer,
       .field = &Args::reference_batch_size,
       .help = "the effective batch that learning_rate was tuned for"},
      {.name = "weight_decay",
       .group = kOptimizer,
       .field = &Args::weight_decay,
       .help = "not for biases and norms; decoupled in AdamW"},
      {.name = "adam_beta1",
       .group = kOptimizer,
       .field = &Args::adam_beta1,
       .help = "decay of the first moment"},
      {.name = "adam_beta2",
       .group = kOptimizer,
       .field = &Args::adam_beta2,
       .help = "decay of the second moment"},
      {.name = "adam_epsilon",
       .group = kOptimizer,
       .field = &Args::adam_epsilon,
       .help = "added to the root of the second moment"},
      {.name = "max_grad_norm",
       .group = kOptimizer,
       .field = &Args::max_grad_norm,
       .help = "clip the global norm of the gradient; 0 is off"},
      {.name = "max_grad_value",
       .group = kOptimizer,
       .field = &Args::max_grad_value,
       .help = "cut each element of the gradient at this, after max_grad_norm; 0 is off"},
      {.name = "label_smoothing_factor",
       .group = kOptimizer,
       .field = &Args::label_smoothing_factor,
       .help = "share of the target spread over all classes",
       .aliases = {"label_smoothing"}},
      {.name = "lr_scheduler_type",
       .group = kOptimizer,
       .field = &Args::lr_scheduler_type,
       .help = "how the learning rate moves: with the step, or (reduce_lr_on_plateau, without warm-up) with "
               "metric_for_best_model after each evaluation",
       .choices = schedulers()},
      {.name = "lr_scheduler_kwargs",
       .group = kOptimizer,
       .field = &Args::lr_scheduler_kwargs,
       .help = "its options, as num_cycles=2 or JSON; reduce_lr_on_plateau: mode, factor, patience, "
               "threshold, threshold_mode, cooldown, min_lr, eps"},
      {.name = "warmup_steps",
       .group = kOptimizer,
       .field = &Args::warmup_steps,
       .help = "steps of linear warm-up; below 1 a share of all steps"},
      {.name = "warmup_ratio",
       .group = kOptimizer,
       .field = &Args::warmup_ratio,
       .help = "the share, where warmup_steps is 0"},
  };
}

}  // namespace

std::vector<ArgumentSpec> training() {
  std::vector<ArgumentSpec> rows = batch_and_precision();
  for (ArgumentSpec& row : memory_and_speed()) rows.push_back(std::move(row));
  for (ArgumentSpec& row : adapters()) rows.push_back(std::move(row));
  for (ArgumentSpec& row : optimizer_and_schedule()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace shoehorn::argument_rows
