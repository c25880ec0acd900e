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

// Loads --train_file and --validation_file and gives the model the classes of the training file.
TextTask load_text_task(const TrainingArguments& args, ModelSource& source);

// One file; labels must be among the model's.
LoadedDataset load_labelled_file(const TrainingArguments& args, const ModelSource& source,
                                 const Tokenizer& tokenizer, const std::string& file, bool read_labels,
                                 std::optional<int64_t> max_samples);

}  // namespace shoehorn
