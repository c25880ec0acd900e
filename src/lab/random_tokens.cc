#include "lab/random_tokens.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/process.h"
#include "model/task.h"

namespace shoehorn {

namespace {

int64_t budget_of(const TrainingArguments& args) {
  return args.memory_budget.value_or(available_memory_bytes());
}

}  // namespace

void check_batch_size(const TrainingArguments& args, const Model& model, int64_t length) {
  const int64_t budget = budget_of(args);
  const int64_t sequence_bytes = length * std::max<int64_t>(1, model.hidden_size()) * 2;
  const int64_t most =
      std::max<int64_t>(1, std::min(budget / sequence_bytes, std::numeric_limits<int32_t>::max() / length));
  const bool keeps_all = args.accumulation_order == "layer_major";
  if (args.per_device_train_batch_size <= most) {
    if (!keeps_all || args.gradient_accumulation_steps <= most / args.per_device_train_batch_size) return;
    throw user_error(
        "[--gradient_accumulation_steps] expected at most {} in the order layer_major, got {}; the embeddings alone "
        "of a batch of {} x {} tokens take {} or more, those of all batches are kept, of a budget of {}",
        most / args.per_device_train_batch_size, args.gradient_accumulation_steps,
        args.per_device_train_batch_size, length,
        format_bytes(sequence_bytes * args.per_device_train_batch_size), format_bytes(budget));
  }
  throw user_error(
      "[--per_device_train_batch_size] expected at most {}, got {}; the embeddings alone of a sequence of "
      "{} tokens take {} or more, of a budget of {}",
      most, args.per_device_train_batch_size, length, format_bytes(sequence_bytes), format_bytes(budget));
}

int64_t random_length(const ParsedArguments& parsed, const Model& model) {
  const int64_t length = parsed.arguments.max_seq_length;
  if (const auto block = parsed.arguments.block_size) {
    if (model.task().label_shape().kind != LabelKind::kNextToken) {
      throw user_error(
          "[--block_size] expected a language model, whose texts are cut into blocks, got a classifier; give --max_seq_length");
    }
    return *block;
  }
  return parsed.sets("max_seq_length") ? length : std::min(length, model.max_position_embeddings());
}

Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps) {
  if (args.max_seq_length > model.max_positions()) {
    throw user_error("[--{}] expected at most {}, the model's positions, got {}",
                     args.block_size ? "block_size" : "sequence_length", model.max_positions(),
                     args.max_seq_length);
  }
  check_batch_size(args, model, args.max_seq_length);
  const int64_t budget = budget_of(args);
  const int64_t sample_bytes = (args.max_seq_length + 3) * static_cast<int64_t>(sizeof(int32_t));
  const int64_t most_samples = budget / sample_bytes;
  if (effective_batch_size(args) > most_samples) {
    throw user_error(
        "[--gradient_accumulation_steps] expected at most {}, got {}; a random sample takes {}, of a budget of {}",
        std::max<int64_t>(1, most_samples / args.per_device_train_batch_size),
        args.gradient_accumulation_steps, format_bytes(sample_bytes), format_bytes(budget));
  }
  if (steps > most_samples / effective_batch_size(args)) {
    throw user_error(
        "[--max_steps] expected at most {}, got {}; the random samples of a step take {}, of a budget of {}",
        most_samples / effective_batch_size(args), steps,
        format_bytes(sample_bytes * effective_batch_size(args)), format_bytes(budget));
  }
  const auto vocabulary = static_cast<int32_t>(model.vocab_size());
  return Dataset::random_tokens({.count = effective_batch_size(args) * steps,
                                 .length = args.max_seq_length,
                                 .vocab_begin = std::min<int32_t>(100, vocabulary - 1),
                                 .vocab_end = std::min<int32_t>(30000, vocabulary),
                                 .num_labels = static_cast<int32_t>(model.num_labels()),
                                 .label_kind = model.task().label_shape().kind,
                                 .seed = static_cast<uint64_t>(args.seed)});
}

std::string describe_random_step(const TrainingArguments& args) {
  const int64_t steps = args.gradient_accumulation_steps;
  const int64_t samples = args.per_device_train_batch_size * steps;
  return fmt::format("{}{} of {} ({} a step)", steps > 1 ? fmt::format("{} x ", steps) : "",
                     plural(args.per_device_train_batch_size, "sequence"),
                     plural_count(args.max_seq_length, "token"),
                     plural_count(samples * args.max_seq_length, "token"));
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
  args.early_stopping_patience = standard.early_stopping_patience;
  args.early_stopping_threshold = standard.early_stopping_threshold;
  if (args.lr_scheduler_type == "reduce_lr_on_plateau") {
    args.lr_scheduler_type = standard.lr_scheduler_type;
    args.lr_scheduler_kwargs = standard.lr_scheduler_kwargs;
  }
  args.logging_strategy = "no";
  args.report_to.clear();
  return args;
}

}  // namespace shoehorn
