#include "arguments/step_settings.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/format.h"
#include "passes/recompute_set.h"

namespace shoehorn {

namespace {

Precision precision_of(bool bf16, bool fp16) {
  if (fp16) return Precision::kFloat16;
  return bf16 ? Precision::kBfloat16 : Precision::kFloat32;
}

int64_t zero_group_size(const TrainingArguments& args) {
  const bool is_of_hosts = args.zero_group_size == 0 && args.world_size > 1 && args.zero_stage > 0;
  if (!is_of_hosts) return args.zero_group_size.value_or(0);
  if (args.ranks_per_host) return ranks_of_host(args);
  throw user_error(
      "[--zero_group_size 0] expected a number where no ranks run, which would know how many a host has; give "
      "--ranks_per_host N");
}

}  // namespace

StepOptions step_options_of(const TrainingArguments& args) {
  StepOptions step;
  step.precision = precision_of(args.bf16, args.fp16);
  step.master_weights = args.master_weights == "none" ? MasterWeights::kNone : MasterWeights::kFloat32;
  if (args.bf16_full_eval || args.fp16_full_eval)
    step.evaluation_precision = precision_of(args.bf16_full_eval, args.fp16_full_eval);
  step.loss_scale = {.fixed = static_cast<float>(args.loss_scale),
                     .initial = std::ldexp(1.0F, static_cast<int>(args.initial_scale_power)),
                     .growth_interval = static_cast<int32_t>(args.loss_scale_window),
                     .hysteresis = static_cast<int32_t>(args.hysteresis),
                     .minimum = static_cast<float>(args.min_loss_scale)};
  step.gradient_accumulation_steps = args.gradient_accumulation_steps;
  step.accumulation_order =
      args.accumulation_order == "layer_major" ? AccumulationOrder::kLayer : AccumulationOrder::kMicroBatch;
  step.ranks.world_size = args.world_size;
  if (are_replicas(args)) step.ranks.mode = ParallelMode::kReplicas;
  step.ranks.zero_stage = args.zero_stage;
  if (args.zero_prefetch_layers) step.ranks.zero_prefetch_layers = *args.zero_prefetch_layers;
  if (args.zero_persistence_threshold)
    step.ranks.zero_persistence_threshold = *args.zero_persistence_threshold;
  step.ranks.local_sgd_steps = args.local_sgd_steps;
  step.ranks.outer_learning_rate = static_cast<float>(args.outer_learning_rate);
  step.ranks.outer_momentum = static_cast<float>(args.outer_momentum);
  step.ranks.zero_group_size = zero_group_size(args);
  step.ranks.ranks_per_host = args.ranks_per_host.value_or(0);
  if (args.ddp_bucket_cap_mb) step.ranks.bucket_bytes = *args.ddp_bucket_cap_mb << 20;
  step.recompute_every_n_layers = recompute_every_n_layers(args);
  step.activation_budget = activation_budget_of(args);
  if (!args.recompute_set.empty()) step.recompute_set = load_recompute_set(args.recompute_set);
  step.update_in_backward = args.update_in_backward;
  step.lora = {.rank = args.lora_rank,
               .alpha = static_cast<float>(args.lora_alpha),
               .dropout = static_cast<float>(args.lora_dropout),
               .targets = args.lora_target,
               .modules_to_save = args.lora_modules_to_save};
  step.freeze = args.freeze;
  step.max_grad_norm = static_cast<float>(args.max_grad_norm);
  step.max_grad_value = static_cast<float>(args.max_grad_value);
  step.label_smoothing = static_cast<float>(args.label_smoothing_factor);
  step.z_loss = static_cast<float>(args.z_loss);
  step.neftune_noise_alpha = static_cast<float>(args.neftune_noise_alpha.value_or(0));
  step.seed = static_cast<uint64_t>(args.seed);
  step.skip_passes = {args.skip_pass.begin(), args.skip_pass.end()};
  if (wants_unfused_run(args)) step.skip_passes.insert("fuse");
  step.dump_directory = args.dump_program;
  step.optimizer = {optimizer_settings_of(args), static_cast<float>(args.weight_decay)};
  return step;
}

std::optional<ActivationBudget> activation_budget_of(const TrainingArguments& args) {
  const std::string& text = args.activation_budget;
  if (!text.empty() && !args.recompute_set.empty()) {
    throw user_error(
        "[--activation_budget] expected without --recompute_set, got both; the budget chooses what the set says");
  }
  if (args.gradient_checkpointing && !(text.empty() && args.recompute_set.empty())) {
    throw user_error(
        "[--{}] expected without --gradient_checkpointing, got both; whole layers and chosen values are two ways to say "
        "what is recomputed",
        text.empty() ? "recompute_set" : "activation_budget");
  }
  if (text.empty()) return std::nullopt;
  double fraction = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fraction);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && fraction >= 0 && fraction <= 1) return ActivationBudget{.fraction = fraction};
  // A number without a unit is a fraction that is none, unless it is as large as bytes are.
  const int64_t bytes =
      is_number && fraction < kLeastBareBytes ? 0 : parse_bytes(text, "--activation_budget");
  if (bytes < 1)
    throw user_error("[--activation_budget] expected bytes, as 1.5GiB, or a fraction from 0 to 1, got {}",
                     text);
  return ActivationBudget{.bytes = bytes};
}

std::function<float(const std::string& name, float standard)> decay_of_groups(
    std::vector<ParameterGroup> groups) {
  if (groups.empty()) return {};
  return [groups = std::move(groups)](const std::string& name, float standard) {
    for (const ParameterGroup& group : groups) {
      if (group.matches(name)) return group.weight_decay;
    }
    return standard;
  };
}

}  // namespace shoehorn
