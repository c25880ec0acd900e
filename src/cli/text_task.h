// The tokenizer and the texts that a command's arguments name.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/model_source.h"
#include "data/load_dataset.h"
#include "tokenize/tokenizer.h"
#include "train/training_arguments.h"

namespace shoehorn {

struct TextTask {
  std::unique_ptr<Tokenizer> tokenizer;
  LoadedDataset train;
  LoadedDataset validation;
};

// Loads --train_file, and --validation_file where the run evaluates, and gives the model the classes of the
// training file. UserError for a training file without a tokenizer: a built-in shape has none.
TextTask load_text_task(const TrainingArguments& args, ModelSource& source);

// A line for people where bytes of the file are not UTF-8; else empty.
std::string format_ill_formed(const std::string& file, const LoadedDataset& data);

// One file; labels must be among the model's.
LoadedDataset load_labelled_file(const TrainingArguments& args, const ModelSource& source,
                                 const Tokenizer& tokenizer, const std::string& file, bool read_labels,
                                 std::optional<int64_t> max_samples);

}  // namespace shoehorn
