// Loads the tokenizer and the texts that a command's arguments name.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "arguments/training_arguments.h"
#include "cli/model_source.h"
#include "data/load_dataset.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

struct TextTask {
  std::unique_ptr<Tokenizer> tokenizer;
  LoadedDataset train;
  LoadedDataset validation;
  std::string notices;  // lines for people: where data or settings are not used as given
};

// Loads --train_file and, if the run evaluates, --validation_file. Gives the model the labels of the training
// file, and so its task. --max_seq_length is reduced to what model and tokenizer take (fit_max_seq_length);
// `gives_length`: the user has set it. UserError for a training file without a tokenizer: a named size has
// none.
TextTask load_text_task(TrainingArguments& args, ModelSource& source, bool gives_length);

// Reduces args.max_seq_length to the longest text that model and tokenizer take; a null tokenizer has no
// limit. Returns a notice if the user had set the length (as run_glue does), else nothing.
std::string fit_max_seq_length(TrainingArguments& args, const Model& model, const Tokenizer* tokenizer,
                               bool gives_length);

// Loads one file. Its labels must be among the model's. Lines for people are appended to `notices`.
LoadedDataset load_labelled_file(const TrainingArguments& args, const ModelSource& source,
                                 const Tokenizer& tokenizer, const std::string& file, bool read_labels,
                                 std::optional<int64_t> max_samples, std::string& notices);

}  // namespace shoehorn
