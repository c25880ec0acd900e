// The model, tokenizer and data that a command's arguments name.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/load_dataset.h"
#include "model/bert.h"
#include "tokenize/tokenizer.h"
#include "train/training_arguments.h"

namespace shoehorn {

struct ModelSource {
  std::filesystem::path directory;  // empty for a built-in shape (bert-mini, bert-base, bert-large)
  std::unique_ptr<BertForSequenceClassification> model;
  std::vector<std::filesystem::path> companions;
  std::filesystem::path adapter;            // of adapters beside the weights in `directory`; empty: none
  std::filesystem::path tokenizer() const;  // the directory that has it: the adapter's own, else the base's
};

// A directory, or where `allow_shapes` the names of shapes, which have no weights. With
// `need_weights` the directory must have them. UserError for an adapter: it is trained from its base.
ModelSource open_model(const std::string& name_or_path, bool allow_shapes, bool need_weights);

// What --model_name_or_path names, to be run as it is: a model, or an adapter of PEFT's format with its base,
// whose settings become lora_* of `args`.
ModelSource open_trained_model(TrainingArguments& args);

// Samples of random tokens, each of --sequence_length, for so many optimizer steps. UserError where the model
// has fewer positions.
Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps);

// Of a run that is looked at and not kept: no log, report, evaluation or checkpoint, and the full batch in
// every step.
TrainingArguments without_files(TrainingArguments args);

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
