#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/text_task.h"
#include "io/file.h"
#include "train/argument_table.h"
#include "train/run_report.h"
#include "train/trainer.h"

namespace shoehorn {

int run_eval(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kEval, words);
  if (parsed.help) {
    fmt::print("{}", help_text(Command::kEval));
    return 0;
  }
  TrainingArguments args = parsed.arguments;
  validate_command(Command::kEval, args);
  const ModelSource source = open_trained_model(args);
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  const std::string& file = args.validation_file.empty() ? args.test_file : args.validation_file;
  LoadedDataset data = load_labelled_file(args, source, *tokenizer, file, true, args.max_eval_samples);
  TrainerOptions options;
  options.weights = source.directory;
  options.adapter = source.adapter;
  Trainer trainer(*source.model, args, {}, std::move(data.dataset), std::move(options));
  const Metrics metrics = trainer.evaluate();
  fmt::print("{}", format_metrics("eval", metrics));
  ensure_writable_directory(args.output_dir);
  save_metrics(args.output_dir, "eval", metrics);
  return 0;
}

}  // namespace shoehorn
