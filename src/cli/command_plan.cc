#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/pass_table.h"
#include "cli/text_task.h"
#include "train/argument_table.h"
#include "train/auto_find_batch_size.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

// Without a training file: as many samples of the longest length as fill the batches of one step.
Dataset longest_samples(const TrainingArguments& args, const Model& model) {
  const int64_t length = std::min(args.max_seq_length, model.max_positions());
  return Dataset::random_tokens({.count = args.per_device_train_batch_size * args.gradient_accumulation_steps,
                                 .length = length,
                                 .vocab_begin = 0,
                                 .vocab_end = static_cast<int32_t>(model.vocab_size()),
                                 .num_labels = static_cast<int32_t>(model.num_labels()),
                                 .seed = 1});
}

}  // namespace

int run_plan(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kPlan, words);
  if (parsed.help) {
    fmt::print("{}", help_text(Command::kPlan));
    return 0;
  }
  const TrainingArguments& args = parsed.arguments;
  validate_command(Command::kPlan, args);
  ModelSource source = open_model(args.model_name_or_path, true, false);
  TextTask task = load_text_task(args, source);
  Dataset train =
      args.train_file.empty() ? longest_samples(args, *source.model) : std::move(task.train.dataset);
  task.tokenizer.reset();
  TrainingArguments planned = args;
  if (task.validation.dataset.size() == 0) planned.eval_strategy = "no";
  const Trainer trainer(*source.model, planned, std::move(train), std::move(task.validation.dataset));
  const MemoryForecast& forecast = trainer.forecast();
  std::vector<PassEffect> effects;
  if (args.explain)
    effects = explain_passes(*source.model, trainer.session().options(), measure_machine_limits());
  if (args.json) {
    nlohmann::json result = to_json(forecast);
    if (args.explain) result["passes"] = to_json(effects);
    result["per_device_train_batch_size"] = trainer.arguments().per_device_train_batch_size;
    fmt::print("{}\n", result.dump(2));
  } else {
    fmt::print("{}{}", format_found_batch_size(planned, trainer.arguments()), format_forecast(forecast));
    if (args.explain) fmt::print("\n{}", format_passes(effects));
  }
  if (forecast.fits()) return 0;
  fmt::print(stderr, "error: {}\n", format_refusal(forecast, trainer.alternatives()));
  return 2;
}

}  // namespace shoehorn
