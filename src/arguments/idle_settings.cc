#include "arguments/idle_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "arguments/block_arguments.h"

namespace shoehorn {
namespace {

using Names = std::initializer_list<const char*>;

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool chooses_best_model(const TrainingArguments& args) {
  return args.load_best_model_at_end || args.early_stopping_patience || args.save_strategy == "best" ||
         args.lr_scheduler_type == "reduce_lr_on_plateau";
}

class IdleSettings {
 public:
  explicit IdleSettings(const ParsedArguments& parsed) : parsed_(parsed) {}

  void check(bool has_effect, Names names, const std::string& reason) {
    if (has_effect) return;
    for (const char* name : names) {
      if (parsed_.sets(name)) notices_.push_back(fmt::format("{} has no effect: {}", name, reason));
    }
  }

  std::vector<std::string> take() { return std::move(notices_); }

 private:
  const ParsedArguments& parsed_;
  std::vector<std::string> notices_;
};

}  // namespace

std::vector<std::string> notices_of_idle_settings(const ParsedArguments& parsed, bool evaluates,
                                                  std::string_view task) {
  const TrainingArguments& args = parsed.arguments;
  const std::string_view optimizer = optimizer_name(args);
  IdleSettings idle(parsed);
  const auto is = [](const char* name, const std::string& value) {
    return fmt::format("{} is {}", name, value);
  };
  idle.check(args.max_steps <= 0, {"num_train_epochs"}, "max_steps is set");
  idle.check(args.warmup_steps == 0, {"warmup_ratio"}, "warmup_steps is set");
  idle.check(!is_one_of(args.lr_scheduler_type, {"constant", kReduceLrOnPlateau}),
             {"warmup_steps", "warmup_ratio"}, is("lr_scheduler_type", args.lr_scheduler_type));
  idle.check(args.train_sampling_strategy == "random", {"data_seed"},
             is("train_sampling_strategy", args.train_sampling_strategy));
  idle.check(is_one_of(optimizer, {"adamw", "adamw_8bit", "lion"}), {"adam_beta1", "adam_beta2"},
             is("optim", args.optim));
  idle.check(is_one_of(optimizer, {"adamw", "adamw_8bit"}), {"adam_epsilon"}, is("optim", args.optim));
  idle.check(reports_to(args, "html"), {"run_name"}, "report_to asks for no report in HTML");
  idle.check(reports_to(args, "tensorboard"), {"logging_dir"}, "report_to asks for no files of TensorBoard");
  idle.check(args.logging_strategy == "steps", {"logging_steps"},
             is("logging_strategy", args.logging_strategy));
  idle.check(args.save_strategy == "steps", {"save_steps"}, is("save_strategy", args.save_strategy));
  idle.check(args.save_strategy != "no", {"save_total_limit", "save_only_model"},
             is("save_strategy", args.save_strategy));
  idle.check(args.eval_strategy == "steps", {"eval_steps"}, is("eval_strategy", args.eval_strategy));
  idle.check(args.eval_strategy != "no", {"eval_delay"}, is("eval_strategy", args.eval_strategy));
  idle.check(evaluates,
             {"per_device_eval_batch_size", "max_eval_samples", "bf16_full_eval", "fp16_full_eval"},
             "nothing is evaluated");
  idle.check(chooses_best_model(args), {"metric_for_best_model", "greater_is_better"},
             "load_best_model_at_end is false, and nothing else asks for the best model");
  idle.check(args.gradient_checkpointing, {"gradient_checkpointing_kwargs"},
             "gradient_checkpointing is false");
  idle.check(args.dataset_cache != kNoDatasetCache && (args.world_size > 1 || !args.dataset_cache.empty()),
             {"overwrite_cache"},
             args.dataset_cache.empty() ? "dataset_cache is not set" : "dataset_cache is none");
  idle.check(args.world_size > 1, {"ddp_bucket_cap_mb", "log_level_replica"}, "there is one rank");
  idle.check(args.world_size > 1, {"parallel_mode"}, "there is one rank");
  idle.check(args.world_size > 1, {"local_sgd_steps", "ranks_per_host"}, "there is one rank");
  idle.check(args.local_sgd_steps > 0, {"outer_learning_rate", "outer_momentum"}, "local_sgd_steps is 0");
  idle.check(args.zero_stage > 0, {"zero_group_size"}, is("zero_stage", std::to_string(args.zero_stage)));
  idle.check(args.zero_stage == 3, {"zero_prefetch_layers", "zero_persistence_threshold"},
             is("zero_stage", std::to_string(args.zero_stage)));
  idle.check(false, {"dataset_name", "dataset_config_name"},
             "nothing is downloaded, the files are what is read");
  idle.check(task != kCausalLanguageModel, {"task_name", "problem_type", "label_column_name", "id_column"},
             is("task", std::string(task)));
  idle.check(false, {"test_file", "test_file_format", "max_predict_samples"},
             "train predicts nothing; shoehorn predict does");
  return idle.take();
}

}  // namespace shoehorn
