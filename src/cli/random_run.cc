#include "cli/random_run.h"

#include <algorithm>

#include "base/error.h"

namespace shoehorn {

Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps) {
  if (args.max_seq_length > model.max_positions()) {
    throw user_error("[--sequence_length] expected at most {}, the model's positions, got {}",
                     model.max_positions(), args.max_seq_length);
  }
  const auto vocabulary = static_cast<int32_t>(model.vocab_size());
  return Dataset::random_tokens(
      {.count = args.per_device_train_batch_size * args.gradient_accumulation_steps * steps,
       .length = args.max_seq_length,
       .vocab_begin = std::min<int32_t>(100, vocabulary - 1),
       .vocab_end = std::min<int32_t>(30000, vocabulary),
       .num_labels = static_cast<int32_t>(model.num_labels()),
       .seed = static_cast<uint64_t>(args.seed)});
}

void refuse_batch_size_ramp(const TrainingArguments& args) {
  if (args.batch_size_ramp.empty()) return;
  throw user_error(
      "[--batch_size_ramp] expected none here, got {}; every step that is measured has the full batch, and "
      "smaller ones are measured with fewer --gradient_accumulation_steps",
      fmt::join(args.batch_size_ramp, ","));
}

TrainingArguments without_files(TrainingArguments args) {
  refuse_batch_size_ramp(args);
  args.save_strategy = "no";
  args.eval_strategy = "no";
  // What an evaluation or an older run would decide.
  const TrainingArguments standard;
  args.eval_on_start = standard.eval_on_start;
  args.load_best_model_at_end = standard.load_best_model_at_end;
  args.metric_for_best_model = standard.metric_for_best_model;
  args.resume_from_checkpoint = standard.resume_from_checkpoint;
  if (args.lr_scheduler_type == "reduce_lr_on_plateau") {
    args.lr_scheduler_type = standard.lr_scheduler_type;
    args.lr_scheduler_kwargs = standard.lr_scheduler_kwargs;
  }
  args.logging_strategy = "no";
  args.report_to.clear();
  return args;
}

}  // namespace shoehorn
