// The tokenizer and the texts that a command's arguments name.
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
  std::string notices;  // lines for people: what is read or done otherwise than the words say
};

// Loads --train_file, and --validation_file where the run evaluates, and gives the model the labels of the
// training file, and with them its task. --max_seq_length becomes the longest that model and tokenizer take,
// if it is more (fit_max_seq_length); `gives_length`: the user has set it. UserError for a training file
// without a tokenizer: a built-in shape has none.
TextTask load_text_task(TrainingArguments& args, ModelSource& source, bool gives_length);

// Texts cannot be longer than model and tokenizer take; a null tokenizer has no limit. Where args.max_seq_length is
// more, it becomes that. The notice of it as a line, as run_glue has it, for a length that the user has set; of the
// default there is none.
std::string fit_max_seq_length(TrainingArguments& args, const Model& model, const Tokenizer* tokenizer,
                               bool gives_length);

// One file; labels must be among the model's. `notices` gets lines for people.
LoadedDataset load_labelled_file(const TrainingArguments& args, const ModelSource& source,
                                 const Tokenizer& tokenizer, const std::string& file, bool read_labels,
                                 std::optional<int64_t> max_samples, std::string& notices);

}  // namespace shoehorn
