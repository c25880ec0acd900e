#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/text_task.h"
#include "io/file.h"
#include "io/json_file.h"
#include "train/argument_table.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

std::vector<double> softmax(std::span<const float> logits) {
  const float largest = logits[static_cast<size_t>(predicted_class(logits))];
  std::vector<double> scores;
  double sum = 0;
  for (const float logit : logits) {
    scores.push_back(std::exp(static_cast<double>(logit) - largest));
    sum += scores.back();
  }
  for (double& score : scores) score /= sum;
  return scores;
}

std::string prediction_line(std::span<const float> logits, const std::vector<std::string>& labels, bool raw) {
  nlohmann::ordered_json line;
  line["label"] = labels[static_cast<size_t>(predicted_class(logits))];
  line["scores"] = raw ? std::vector<double>(logits.begin(), logits.end()) : softmax(logits);
  return format_json(line, {.indent = -1, .sort_keys = false, .ensure_ascii = false, .final_newline = true});
}

}  // namespace

int run_predict(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kPredict, words);
  if (parsed.help) {
    fmt::print("{}", help_text(Command::kPredict));
    return 0;
  }
  TrainingArguments args = parsed.arguments;
  validate_command(Command::kPredict, args);
  const ModelSource source = open_trained_model(args);
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  LoadedDataset data =
      load_labelled_file(args, source, *tokenizer, args.test_file, false, args.max_predict_samples);
  const int64_t samples = data.dataset.size();
  const std::vector<std::string> labels = source.model->labels();
  TrainerOptions options;
  options.weights = source.directory;
  options.adapter = source.adapter;
  Trainer trainer(*source.model, args, {}, std::move(data.dataset), std::move(options));
  AtomicFile file(args.output_file);
  trainer.predict([&](std::span<const float> logits) {
    const size_t classes = labels.size();
    for (size_t at = 0; at < logits.size(); at += classes) {
      const std::string line = prediction_line(logits.subspan(at, classes), labels, args.logits);
      file.write(line);
    }
  });
  file.commit();
  fmt::print("{} predictions in {}\n", samples, args.output_file);
  return 0;
}

}  // namespace shoehorn
