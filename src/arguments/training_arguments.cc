#include "arguments/training_arguments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "arguments/argument_checks.h"
#include "arguments/argument_table.h"
#include "arguments/batch_size_ramp.h"
#include "arguments/block_arguments.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/processors.h"
#include "base/rounding.h"
#include "base/user_error_kinds.h"
#include "passes/step_options.h"

namespace shoehorn {
namespace {

// The micro-batches of a given effective batch, as they are cut and dealt out.
void validate_effective_batch(const TrainingArguments& args) {
  if (!args.effective_batch_size) return;
  const int64_t size = args.per_device_train_batch_size;
  if (*args.effective_batch_size % size != 0) {
    throw user_error(
        "[--effective_batch_size] expected a multiple of per_device_train_batch_size {}, got {}; a step has whole "
        "micro-batches",
        size, *args.effective_batch_size);
  }
  const int64_t steps = micro_batches_of_rank(args);
  if (args.gradient_accumulation_steps == steps) return;
  throw user_error(
      "[--gradient_accumulation_steps] expected {} for an effective batch of {} in micro-batches of {} on {}, got {}; "
      "without this flag it follows from --effective_batch_size",
      steps, *args.effective_batch_size, size, plural(args.world_size, "rank"),
      args.gradient_accumulation_steps);
}

void validate_numbers(const TrainingArguments& args) {
  require_positive("per_device_train_batch_size", args.per_device_train_batch_size);
  require_positive("per_device_eval_batch_size", args.per_device_eval_batch_size);
  require_positive("gradient_accumulation_steps", args.gradient_accumulation_steps);
  require_positive("effective_batch_size", args.effective_batch_size);
  require_positive("world_size", args.world_size);
  require_between("ddp_bucket_cap_mb", static_cast<double>(args.ddp_bucket_cap_mb.value_or(1)), 1, 1024,
                  "1 to 1024");
  require_positive("ddp_timeout", args.ddp_timeout);
  require_between("zero_stage", static_cast<double>(args.zero_stage), 0, 3, "0, 1, 2 or 3");
  require(args.zero_prefetch_layers.value_or(0) >= 0, "zero_prefetch_layers", "0 or more",
          static_cast<double>(args.zero_prefetch_layers.value_or(0)));
  require(args.zero_persistence_threshold.value_or(0) >= 0, "zero_persistence_threshold", "0 or more",
          static_cast<double>(args.zero_persistence_threshold.value_or(0)));
  require(args.local_sgd_steps >= 0, "local_sgd_steps", "0 or more",
          static_cast<double>(args.local_sgd_steps));
  require(args.outer_learning_rate > 0, "outer_learning_rate", "more than 0", args.outer_learning_rate);
  require(args.outer_momentum >= 0 && args.outer_momentum < 1, "outer_momentum", "at least 0 and less than 1",
          args.outer_momentum);
  require(args.zero_group_size.value_or(0) >= 0, "zero_group_size", "0 or more",
          static_cast<double>(args.zero_group_size.value_or(0)));
  require_positive("ranks_per_host", args.ranks_per_host);
  require_positive("max_seq_length", args.max_seq_length);
  require_positive("max_train_samples", args.max_train_samples);
  require_positive("max_eval_samples", args.max_eval_samples);
  require_positive("max_predict_samples", args.max_predict_samples);
  require_positive("top_k", args.top_k);
  require_positive("save_total_limit", args.save_total_limit);
  require_positive("reference_batch_size", args.reference_batch_size);
  require_positive("memory_budget", args.memory_budget);
  require_positive("num_threads", args.num_threads);
  require(args.num_threads.value_or(1) <= kMostThreads, "num_threads", "at most 65536",
          static_cast<double>(args.num_threads.value_or(1)));
  require_positive("eval_accumulation_steps", args.eval_accumulation_steps);
  require(args.max_steps == -1 || args.max_steps > 0, "max_steps", "more than 0, or -1 for none",
          static_cast<double>(args.max_steps));
  require(static_cast<double>(args.max_steps) <= kMaxSteps, "max_steps", "at most 1e15",
          static_cast<double>(args.max_steps));
  constexpr int64_t kMaxSamples = int64_t{1} << 40;  // so that no product of sizes overflows
  constexpr int64_t kMaxRanks = 1 << 20;
  require(args.world_size <= kMaxRanks, "world_size", "at most 2^20 ranks",
          static_cast<double>(args.world_size));
  require(args.effective_batch_size.value_or(1) <= kMaxSamples, "effective_batch_size",
          "at most 2^40 samples", static_cast<double>(args.effective_batch_size.value_or(1)));
  if (args.per_device_train_batch_size > kMaxSamples / args.gradient_accumulation_steps / args.world_size) {
    throw user_error(
        "[per_device_train_batch_size] expected at most 2^40 samples in an effective batch, got {} times {} "
        "gradient_accumulation_steps on {} ranks",
        args.per_device_train_batch_size, args.gradient_accumulation_steps, args.world_size);
  }
  validate_effective_batch(args);
  constexpr double kInfinity = std::numeric_limits<double>::max();
  if (args.max_steps < 0) {
    require(args.num_train_epochs > 0 && args.num_train_epochs < 1e9, "num_train_epochs",
            "more than 0 and less than 1e9", args.num_train_epochs);
  }
  require_between("learning_rate", args.learning_rate, 0, kInfinity, "0 or more");
  require_between("weight_decay", args.weight_decay, 0, kInfinity, "0 or more");
  require_between("max_grad_norm", args.max_grad_norm, 0, kInfinity, "0 (off) or more");
  require_between("max_grad_value", args.max_grad_value, 0, kInfinity, "0 (off) or more");
  require_between("adam_epsilon", args.adam_epsilon, 0, kInfinity, "0 or more");
  require_between("eval_delay", args.eval_delay, 0, kInfinity, "0 or more");
  require_between("warmup_steps", args.warmup_steps, 0, 1e15, "0 to 1e15");
  require_between("warmup_ratio", args.warmup_ratio, 0, 1, "a number from 0 to 1");
  require_fraction("adam_beta1", args.adam_beta1);
  require_fraction("adam_beta2", args.adam_beta2);
  require_fraction("label_smoothing_factor", args.label_smoothing_factor);
  require_between("z_loss", args.z_loss, 0, 1e3, "a number from 0 (off) to 1000");
  require_between("seed", static_cast<double>(args.seed), 0, kInfinity, "0 or more");
  if (args.data_seed)
    require_between("data_seed", static_cast<double>(*args.data_seed), 0, kInfinity, "0 or more");
}

void validate_strategies(const TrainingArguments& args) {
  if (args.logging_strategy == "steps") require_interval("logging_steps", args.logging_steps);
  if (args.eval_strategy == "steps")
    require_interval("eval_steps", args.eval_steps.value_or(args.logging_steps));
  if (args.save_strategy == "steps") require_interval("save_steps", args.save_steps);
  if (args.save_strategy == "best" && args.metric_for_best_model.empty()) {
    throw user_error("[metric_for_best_model] expected a metric, because save_strategy is best, got nothing");
  }
  if (args.save_strategy == "best" && args.eval_strategy == "no") {
    throw user_error("[eval_strategy] expected steps or epoch, because save_strategy is best, got 'no'");
  }
  if (args.lr_scheduler_type == kReduceLrOnPlateau && args.eval_strategy == "no") {
    throw user_error(
        "[eval_strategy] expected steps or epoch, because lr_scheduler_type is {}, got 'no'; it follows the "
        "metric of evaluations",
        kReduceLrOnPlateau);
  }
}

void validate_early_stopping(const TrainingArguments& args) {
  require_positive("early_stopping_patience", args.early_stopping_patience);
  require(args.early_stopping_threshold >= 0, "early_stopping_threshold", "0 or more",
          args.early_stopping_threshold);
  if (!args.early_stopping_patience) {
    if (args.early_stopping_threshold != 0) {
      throw user_error(
          "[early_stopping_threshold] expected early_stopping_patience with it, got none; that is a number of "
          "evaluations");
    }
    return;
  }
  if (args.eval_strategy == "no") {
    throw user_error(
        "[early_stopping_patience] expected eval_strategy steps or epoch, got 'no'; early stopping looks at "
        "evaluations");
  }
}

void validate_best_model(const TrainingArguments& args) {
  if (!args.load_best_model_at_end || args.save_strategy == "best") return;
  if (args.eval_strategy != args.save_strategy) {
    throw user_error(
        "[load_best_model_at_end] expected equal save_strategy and eval_strategy, got {} and {}; "
        "every checkpoint needs its evaluation",
        args.save_strategy, args.eval_strategy);
  }
  if (args.eval_strategy == "no") {
    throw user_error("[load_best_model_at_end] expected eval_strategy steps or epoch, got 'no'");
  }
  if (args.eval_strategy != "steps") return;
  const double eval_steps = args.eval_steps.value_or(args.logging_steps);
  if ((args.save_steps < 1) != (eval_steps < 1)) {
    throw user_error(
        "[load_best_model_at_end] expected save_steps and eval_steps both as steps or both as shares, "
        "got {} and {}; their multiples cannot be told",
        args.save_steps, eval_steps);
  }
  // Shares are compared in millionths, as transformers does, so that 0.3 is a multiple of 0.1.
  const double scale = eval_steps < 1 ? 1e6 : 1.0;
  if (std::fmod(std::round(args.save_steps * scale), std::max(1.0, std::round(eval_steps * scale))) != 0) {
    throw user_error(
        "[load_best_model_at_end] expected save_steps to be a multiple of eval_steps, got {} and {}; "
        "every checkpoint needs its evaluation",
        args.save_steps, eval_steps);
  }
}

void validate_precision(const TrainingArguments& args) {
  if (args.fp16 && args.bf16)
    throw user_error("[fp16] expected one of fp16 and bf16, got both; bf16 needs no loss scale");
  if (args.fp16_full_eval && args.bf16_full_eval)
    throw user_error("[fp16_full_eval] expected one of fp16_full_eval and bf16_full_eval, got both");
  if (args.master_weights == "none" && !args.bf16) {
    throw user_error(
        "[master_weights] expected bf16 with none, got {}; only a bfloat16 has the range of the fp32 master "
        "that it replaces",
        args.fp16 ? "fp16" : "fp32");
  }
  require(args.loss_scale == 0 || (args.loss_scale > 0 && args.loss_scale <= 0x1p127), "loss_scale",
          "0 for a dynamic one, or more", args.loss_scale);
  require_between("initial_scale_power", static_cast<double>(args.initial_scale_power), 0, 127, "0 to 127");
  require_between("loss_scale_window", static_cast<double>(args.loss_scale_window), 1, 1e9, "1 to 1e9");
  require_between("hysteresis", static_cast<double>(args.hysteresis), 1, 1e9, "1 to 1e9");
  require(args.min_loss_scale > 0 && args.min_loss_scale <= 0x1p127, "min_loss_scale",
          "more than 0, at most 2^127", args.min_loss_scale);
  const TrainingArguments standard;
  const auto need_fp16 = [&](std::string_view name, bool given) {
    if (given && !args.fp16)
      throw user_error("[{}] expected fp16 with it, got none; other precisions need no loss scale", name);
  };
  need_fp16("loss_scale", args.loss_scale != standard.loss_scale);
  need_fp16("initial_scale_power", args.initial_scale_power != standard.initial_scale_power);
  need_fp16("loss_scale_window", args.loss_scale_window != standard.loss_scale_window);
  need_fp16("hysteresis", args.hysteresis != standard.hysteresis);
  need_fp16("min_loss_scale", args.min_loss_scale != standard.min_loss_scale);
  if (args.fp16 && args.update_in_backward && args.loss_scale == 0) {
    throw user_error(
        "[update_in_backward] expected bf16, or a fixed loss_scale, got fp16 with a dynamic one; whether a "
        "step overflowed is known behind its last gradient, when the first are used and gone");
  }
}

// LOMO is SGD, and AdaLOMO Adafactor, in the backward.
bool is_update_in_backward(const std::string& optim) {
  return optim == "lomo" || optim == "adalomo";
}

void validate_lora(const TrainingArguments& args) {
  require_between("lora_rank", static_cast<double>(args.lora_rank), 0, kLargestLoraRank, "0 (off) to 65536");
  require(args.lora_alpha > 0 && args.lora_alpha < 1e30, "lora_alpha", "more than 0", args.lora_alpha);
  require_fraction("lora_dropout", args.lora_dropout);
  if (args.lora_rank > 0) return;
  const TrainingArguments standard;
  const auto need_rank = [](std::string_view name, bool given) {
    if (given) throw user_error("[{}] expected lora_rank with it, got none; 8 is a usual one", name);
  };
  need_rank("lora_alpha", args.lora_alpha != standard.lora_alpha);
  need_rank("lora_dropout", args.lora_dropout != standard.lora_dropout);
  need_rank("lora_target", !args.lora_target.empty());
  need_rank("lora_modules_to_save", !args.lora_modules_to_save.empty());
  need_rank("lora_merge", args.lora_merge);
}

void validate_combinations(const TrainingArguments& args) {
  if (args.update_in_backward && args.max_grad_norm > 0) {
    throw user_error(
        "[{}] expected max_grad_norm 0, got {}; clipping needs the norm of the whole "
        "gradient, which is never there at once when each gradient is used and freed as it appears",
        is_update_in_backward(args.optim) ? "optim " + args.optim : "update_in_backward", args.max_grad_norm);
  }
  if ((args.scale_learning_rate != "none") != args.reference_batch_size.has_value()) {
    throw user_error(
        "[scale_learning_rate] expected reference_batch_size, the effective batch that learning_rate was "
        "tuned for, with it and only with it, got scale_learning_rate {} {}",
        args.scale_learning_rate, args.reference_batch_size ? "and a reference" : "without");
  }
  if (args.dataloader_prefetch_factor) {
    if (args.dataloader_num_workers == 0) {
      throw user_error(
          "[dataloader_prefetch_factor] expected dataloader_num_workers above 0, got 0; without workers "
          "nothing is prefetched");
    }
    require(*args.dataloader_prefetch_factor >= 1, "dataloader_prefetch_factor", "1 or more",
            static_cast<double>(*args.dataloader_prefetch_factor));
  }
  require(args.dataloader_num_workers >= 0, "dataloader_num_workers", "0 or more",
          static_cast<double>(args.dataloader_num_workers));
  for (const std::string& report : args.report_to) {
    if (report == "none" || report == "all")
      throw user_error("[report_to] expected {0} alone or other reports without it, got {1}", report,
                       fmt::join(args.report_to, ", "));
  }
  if (!args.batch_size_ramp.empty() && args.auto_find_batch_size) {
    throw user_error(
        "[batch_size_ramp] expected no auto_find_batch_size with it, got both; the batches of a ramp are "
        "multiples of the micro-batch that is to be found");
  }
  require_between("profile", static_cast<double>(args.profile), 0, 1e9, "0 to 1e9 steps");
  if (args.profile > 0 && args.detect_anomaly) {
    throw user_error(
        "[profile] expected no detect_anomaly with it, got both; the times would be those of the checks");
  }
  if (args.task_name == "stsb" && problem_of(args) != ProblemType::kRegression) {
    throw user_error("[problem_type] expected regression with task_name stsb, got {}", args.problem_type);
  }
  if (args.text_column_names.size() > 2) {
    throw user_error("[text_column_names] expected one or two columns, got {}",
                     fmt::join(args.text_column_names, ", "));
  }
}

}  // namespace

TrainingArguments resolved(TrainingArguments args) {
  if (args.eval_strategy != "no") args.do_eval = true;
  if (args.eval_strategy == "steps" && args.eval_steps.value_or(0) == 0) args.eval_steps = args.logging_steps;
  const bool asks_for_metric = args.load_best_model_at_end || args.early_stopping_patience ||
                               args.lr_scheduler_type == kReduceLrOnPlateau;
  if (asks_for_metric && args.metric_for_best_model.empty()) args.metric_for_best_model = "loss";
  if (!args.greater_is_better && !args.metric_for_best_model.empty()) {
    args.greater_is_better = grows_when_better(args.metric_for_best_model);
  }
  if (is_update_in_backward(args.optim)) args.update_in_backward = true;
  if (args.report_to == std::vector<std::string>{"none"}) args.report_to.clear();
  if (args.report_to == std::vector<std::string>{"all"}) args.report_to = {"tensorboard", "html", "jsonl"};
  return args;
}

void validate(const TrainingArguments& args) {
  for (const ArgumentSpec& spec : argument_table()) {
    if (spec.field.index() != 0) check_argument(spec, argument_value(spec, args), spec.name);
  }
  validate_numbers(args);
  validate_strategies(args);
  validate_best_model(args);
  validate_early_stopping(args);
  validate_precision(args);
  validate_lora(args);
  validate_block_arguments(args);
  validate_combinations(args);
  recompute_every_n_layers(args);
  optimizer_settings_of(args);
  if (!reduce_lr_on_plateau_of(args)) schedule_of(args, 1);
  batch_size_ramp_of(args);
}

nlohmann::json to_json(const TrainingArguments& args) {
  nlohmann::json object = nlohmann::json::object();
  for (const ArgumentSpec& spec : argument_table()) {
    if (spec.field.index() != 0)
      object[std::string(spec.name)] = argument_to_json(argument_value(spec, args));
  }
  return object;
}

TrainingArguments training_arguments_from_json(const nlohmann::json& object, const std::string& source) {
  TrainingArguments args;
  apply_json(object, source, args);
  return args;
}

int64_t recompute_every_n_layers(const TrainingArguments& args) {
  const KwargsReader reader("gradient_checkpointing_kwargs", args.gradient_checkpointing_kwargs,
                            {"every_n_layers", "offload", "use_reentrant", "preserve_rng_state"});
  const bool root = reader.is("every_n_layers", "sqrt");
  const double layers = root ? 1 : reader.number("every_n_layers", "a number or sqrt").value_or(1);
  require(layers >= 1 && layers == std::floor(layers) && layers < 1e9,
          "gradient_checkpointing_kwargs: every_n_layers", "an integer of 1 or more", layers);
  if (reader.flag("offload").value_or(false)) {
    throw not_in_this_version(
        "[gradient_checkpointing_kwargs: offload] expected false, got true; known, but not in this "
        "version yet");
  }
  // Both ways of torch give the same result, and so does ours.
  reader.flag("use_reentrant");
  if (!reader.flag("preserve_rng_state").value_or(true)) {
    throw user_error(
        "[gradient_checkpointing_kwargs: preserve_rng_state] expected true, got false; refused: "
        "recomputed dropout always equals the first");
  }
  if (!args.gradient_checkpointing) return 0;
  return root ? kRootOfLayers : static_cast<int64_t>(layers);
}

bool reports_to(const TrainingArguments& args, std::string_view report) {
  return std::find(args.report_to.begin(), args.report_to.end(), report) != args.report_to.end();
}

int64_t effective_batch_size(const TrainingArguments& args) {
  if (args.effective_batch_size) return *args.effective_batch_size;
  return args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size;
}

int64_t micro_batches_of_step(const TrainingArguments& args) {
  return effective_batch_size(args) / args.per_device_train_batch_size;
}

bool are_replicas(const TrainingArguments& args) {
  return args.world_size > 1 && args.parallel_mode == "dp";
}

bool has_open_gathering(const TrainingArguments& args) {
  return args.world_size > 1 && args.zero_stage == 3 &&
         !(args.zero_prefetch_layers && args.zero_persistence_threshold);
}

int64_t ranks_of_host(const TrainingArguments& args) {
  return std::min(args.ranks_per_host.value_or(args.world_size), args.world_size);
}

int64_t micro_batches_of_rank(const TrainingArguments& args) {
  return ceil_divide(micro_batches_of_step(args), args.world_size);
}

void set_micro_batch_size(TrainingArguments& args, int64_t size) {
  if (!args.effective_batch_size) {
    args.per_device_train_batch_size = size;
    return;
  }
  while (*args.effective_batch_size % size != 0) --size;
  args.per_device_train_batch_size = size;
  args.gradient_accumulation_steps = micro_batches_of_rank(args);
}

double scaled_learning_rate(const TrainingArguments& args) {
  if (args.scale_learning_rate == "none") return args.learning_rate;
  const double ratio = static_cast<double>(effective_batch_size(args)) /
                       static_cast<double>(args.reference_batch_size.value_or(1));
  return args.learning_rate * (args.scale_learning_rate == "sqrt" ? std::sqrt(ratio) : ratio);
}

bool wants_unfused_run(const TrainingArguments& args) {
  return args.torch_compile_backend == "eager" || args.torch_compile_backend == "aot_eager";
}

std::optional<ProblemType> problem_of(const TrainingArguments& args) {
  if (!args.problem_type.empty()) return find_problem_type(args.problem_type);
  if (args.task_name == "stsb") return ProblemType::kRegression;
  return std::nullopt;
}

bool grows_when_better(std::string_view metric) {
  for (const std::string_view lower : {"loss", "mse", "mae", "perplexity"}) {
    if (metric.ends_with(lower)) return false;
  }
  return true;
}

std::vector<std::string> text_columns_of(const TrainingArguments& args) {
  if (!args.text_column_names.empty()) return args.text_column_names;
  // mrpc, rte, stsb and wnli are sentence1 and sentence2, or what the published files call them: the data's own
  // rules.
  static const std::map<std::string, std::vector<std::string>> kGlueColumns = {
      {"cola", {"sentence"}},
      {"mnli", {"premise", "hypothesis"}},
      {"qnli", {"question", "sentence"}},
      {"qqp", {"question1", "question2"}},
      {"sst2", {"sentence"}},
  };
  const auto found = kGlueColumns.find(args.task_name);
  return found == kGlueColumns.end() ? std::vector<std::string>() : found->second;
}

}  // namespace shoehorn
