#include "cli/text_task.h"

#include "base/error.h"
#include "train/text_data.h"

namespace shoehorn {

namespace {

void refuse_regression(const LabelMap& labels, const std::string& file) {
  if (labels.is_regression) {
    throw user_error(
        "[{}] expected classes as labels, got numbers with fractions; regression is not supported yet", file);
  }
}

LabelMap labels_of(const BertForSequenceClassification& model) {
  LabelMap labels;
  labels.names = model.labels();
  return labels;
}

}  // namespace

LoadedDataset load_labelled_file(const TrainingArguments& args, const ModelSource& source,
                                 const Tokenizer& tokenizer, const std::string& file, bool read_labels,
                                 std::optional<int64_t> max_samples) {
  const LabelMap labels = labels_of(*source.model);
  LoadOptions options = load_options_of(args);
  options.max_samples = max_samples.value_or(0);
  options.read_labels = read_labels;
  options.labels = &labels;
  return load_dataset(file, tokenizer, max_tokens_of(args, source.model->max_positions()), options);
}

std::string format_ill_formed(const std::string& file, const LoadedDataset& data) {
  if (data.invalid_utf8 == 0) return {};
  return fmt::format("{}: {} ill-formed stretches of UTF-8 are read as U+FFFD\n", file, data.invalid_utf8);
}

TextTask load_text_task(const TrainingArguments& args, ModelSource& source) {
  TextTask task;
  if (args.train_file.empty()) return task;
  if (source.directory.empty()) {
    throw user_error(
        "[--train_file] expected a model's directory as --model_name_or_path with it, got the shape '{}', "
        "which has no tokenizer; leave --train_file out to plan for the longest samples",
        args.model_name_or_path);
  }
  task.tokenizer = Tokenizer::load(source.directory);
  const int64_t max_tokens = max_tokens_of(args, source.model->max_positions());
  LoadOptions options = load_options_of(args);
  options.max_samples = args.max_train_samples.value_or(0);
  task.train = load_dataset(args.train_file, *task.tokenizer, max_tokens, options);
  refuse_regression(task.train.labels, args.train_file);
  if (task.train.labels.names.size() < 2) {
    throw user_error("[{}] expected at least two different labels, got {}; nothing can be learned from one",
                     args.train_file, task.train.labels.names.size());
  }
  source.model->set_labels(task.train.labels.names);
  const bool evaluates = args.do_eval.value_or(true) || args.eval_on_start;
  if (!args.validation_file.empty() && evaluates) {
    LoadOptions validation = load_options_of(args);
    validation.max_samples = args.max_eval_samples.value_or(0);
    validation.labels = &task.train.labels;
    task.validation = load_dataset(args.validation_file, *task.tokenizer, max_tokens, validation);
  }
  return task;
}

}  // namespace shoehorn
