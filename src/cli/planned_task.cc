#include "cli/planned_task.h"

#include <optional>
#include <utility>

#include "cli/text_task.h"
#include "lab/random_tokens.h"
#include "model/task.h"

namespace shoehorn {

namespace {

Dataset longest_samples(const TrainingArguments& args, const Model& model) {
  check_batch_size(args, model, args.max_seq_length);
  return Dataset::alike(args.per_device_train_batch_size, args.max_seq_length, model.task().label_shape());
}

// Plans without a validation file evaluate nothing, whatever asks for it; plans without a training file count
// no samples.
TrainingArguments planned_arguments(TrainingArguments args, bool has_validation) {
  if (args.train_file.empty()) args.batch_size_ramp.clear();
  if (has_validation) return args;
  args.eval_strategy = "no";
  args.save_strategy = "no";
  args.load_best_model_at_end = false;
  return args;
}

}  // namespace

PlannedTask open_planned_task(const ParsedArguments& parsed, Communicator* ranks) {
  PlannedTask planned;
  planned.arguments = parsed.arguments;
  TrainingArguments& args = planned.arguments;
  planned.source = open_model(args, true, false);
  const Model& model = *planned.source.model;
  // A plan that is too large is shown as such; this process may hold more than its budget.
  const auto budget = std::exchange(args.memory_budget, std::nullopt);
  TextTask task = load_text_task(args, planned.source, parsed.sets("max_seq_length"), ranks);
  args.memory_budget = budget;
  for (const std::string& notice : model.notices()) planned.text += notice + "\n";
  planned.text += task.summary + task.notices;
  planned.has_samples = !args.train_file.empty();
  planned.train = planned.has_samples ? std::move(task.train) : longest_samples(args, model);
  planned.validation = std::move(task.validation);
  args = planned_arguments(args, planned.validation.size() > 0);
  return planned;
}

}  // namespace shoehorn
