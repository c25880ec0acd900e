// Loads the tokenizer and the texts that a command's arguments name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "cli/model_source.h"
#include "data/load_dataset.h"
#include "ranks/communicator.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

struct TextTask {
  Dataset train;
  Dataset validation;   // without samples: there is nothing to evaluate on
  std::string summary;  // lines for people: what was read
  std::string notices;  // and where data or settings are not used as given
  // The columns that were read, where one name each says them, and the validation file has the same; else empty.
  std::vector<std::string> text_columns = {};
  std::string label_columns = {};
};

// Loads --train_file and, if the run evaluates, --validation_file; without it the first --validation_split_percentage
// percent of the former are to evaluate on. args.task becomes the model's.
//
// Of a model that classifies: gives it the labels of the training file, and so its task. --max_seq_length is
// reduced to what model and tokenizer take (fit_max_seq_length); `gives_length`: the user has set it. Of a language model:
// the files become blocks (train/language_data.h), and --max_seq_length the size of a block. UserError for a training
// file without a tokenizer: a named size has none.
//
// `ranks`: as load_on_ranks takes them.
TextTask load_text_task(TrainingArguments& args, ModelSource& source, bool gives_length,
                        Communicator* ranks = nullptr);

// Calls load(), which reads texts, once on each of `ranks`, null for one: where tokenized texts are kept in files
// (dataset_cache_of) on the first rank, which makes them, then on the first of each other host, which may share no files with it, then
// on the others. Returns a notice or nothing.
std::string load_on_ranks(TrainingArguments& args, Communicator* ranks, const std::function<void()>& load);

// A line for people, where several ranks have each read all texts and that took long.
std::string hint_at_dataset_cache(int32_t ranks, double loading_seconds);

// Reduces args.max_seq_length to the longest text that model and tokenizer take; a null tokenizer has no
// limit. Returns a notice if the user had set the length (as run_glue does), else nothing.
std::string fit_max_seq_length(TrainingArguments& args, const Model& model, const Tokenizer* tokenizer,
                               bool gives_length);

// Lines for people on how a file was read: bytes that are no text, labels that are numbers of classes.
std::string notices_of(const std::string& file, const LoadedDataset& data);

// Loads the blocks of --validation_file to evaluate a language model on. `trained`: the column that the training named.
// Lines for people are appended to `summary` and `notices`.
Dataset load_evaluation_texts(TrainingArguments& args, const ModelSource& source,
                              const ColumnOptions& trained, const Tokenizer& tokenizer, std::string& summary,
                              std::string& notices);

// Loads --validation_file to evaluate a model on that classifies. Its labels must be among the model's. `trained`: the
// columns that the training named. Lines for people are appended to `notices`: which columns are read, and what is not
// used as given.
Dataset load_evaluation_labels(const TrainingArguments& args, const ModelSource& source,
                               const ColumnOptions& trained, const Tokenizer& tokenizer,
                               std::string& notices);

}  // namespace shoehorn
