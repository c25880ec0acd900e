#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "base/rounding.h"
#include "base/stop_request.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/notice_printer.h"
#include "cli/text_task.h"
#include "exec/backend/thread_count.h"
#include "io/file.h"
#include "io/json_file.h"
#include "model/task.h"
#include "train/results.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

// --output_file, or predictions.jsonl in --output_dir.
std::filesystem::path prepare_output_file(const TrainingArguments& args) {
  if (!args.output_file.empty()) return args.output_file;
  ensure_writable_directory(args.output_dir);
  return std::filesystem::path(args.output_dir) / "predictions.jsonl";
}

}  // namespace

CommandHelp help_of_predict() {
  return {.name = "predict",
          .introduction =
              "Label and scores for each text of a file.\n\n"
              "  shoehorn predict --model_name_or_path out --test_file new.csv --output_file labels.jsonl\n",
          .table = Command::kPredict};
}

int run_predict(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kPredict, words);
  TrainingArguments args = parsed.arguments;
  use_threads(args.num_threads);
  const StopSignals signals;
  const ModelSource source = open_trained_model(args);
  if (is_language_model(*source.model)) {
    throw user_error(
        "[--model_name_or_path {}] expected a model that classifies texts, got a language model; "
        "shoehorn generate goes on with a text, shoehorn eval gives its loss",
        args.model_name_or_path);
  }
  const std::filesystem::path output = prepare_output_file(args);
  AtomicFile file(output);
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  std::string notices =
      fit_max_seq_length(args, *source.model, tokenizer.get(), parsed.sets("max_seq_length"));
  const std::string kept = fmt::format("{} is not written", output.string());
  LoadedDataset data = with_kept_text(kept, [&] {
    return load_labelled_file(args, source, *tokenizer, find_data_files("--test_file", args.test_file), false,
                              args.max_predict_samples, notices);
  });
  print_text(args, fmt::format("{}{}\n", notices, describe(thread_count())));
  const int64_t samples = data.dataset.size();
  const Task& task = source.model->task();
  TrainerOptions options;
  options.weights = source.directory;
  options.adapter = source.adapter;
  options.on_line = notice_printer(args);
  options.progress = progress_options(args);
  Trainer trainer(*source.model, args, {}, std::move(data.dataset), std::move(options));
  const double start = now_seconds();
  const auto width = static_cast<size_t>(task.num_labels());
  with_kept_text(kept, [&] {
    trainer.predict([&](std::span<const float> outputs) {
      for (size_t at = 0; at < outputs.size(); at += width)
        file.write(task.prediction_line(outputs.subspan(at, width), args.logits));
    });
  });
  const double seconds = now_seconds() - start;
  file.commit();
  if (args.json) {
    const int64_t batch = args.per_device_eval_batch_size;
    nlohmann::json result = to_json(speed_metrics("predict", seconds, samples, ceil_divide(samples, batch)));
    result["predict_samples"] = samples;
    result["output_file"] = output.string();
    fmt::print("{}", format_json(result));
  } else {
    print_text(args, fmt::format("{} predictions in {}\n", samples, output.string()));
  }
  return 0;
}

}  // namespace shoehorn
