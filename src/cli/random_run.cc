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

TrainingArguments without_files(TrainingArguments args) {
  args.save_strategy = "no";
  args.eval_strategy = "no";
  args.logging_strategy = "no";
  args.report_to.clear();
  args.batch_size_ramp.clear();
  return args;
}

}  // namespace shoehorn
