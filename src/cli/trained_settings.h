// How a model was trained, for the commands that run it: what its directory tells (training_args.json of `train`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "arguments/argument_table.h"
#include "cli/model_source.h"
#include "data/text_columns.h"

namespace shoehorn {

struct TrainedSettings {
  std::filesystem::path file;  // that tells them; empty: none does
  std::optional<int64_t> max_seq_length = {};
  std::optional<int64_t> block_size = {};  // of a language model, if it was given
  ColumnOptions columns = {};              // the preferred ones: those that the training named
  std::string class_weights = {};          // as JSON; empty: the classes counted alike
};

// Of the model, or of the adapter if it is one. What the file does not tell, or not in its kind, stays empty.
TrainedSettings read_trained_settings(const ModelSource& source);

// A run's own file of arguments names the model that the run began with. Where --config does so and output_dir has what
// was trained: a line for people that says which of the two is used; `verb`: for what. Else nothing.
std::string notice_of_first_model(const ParsedArguments& parsed, std::string_view verb);

// Unless the user has set a length, takes the one that the model was trained with. Returns a line for people if that is
// another than the default.
std::string take_trained_length(TrainingArguments& args, const TrainedSettings& trained, bool gives_length);

// The same of a language model's block size, which is unset where the user has not set it.
std::string take_trained_block(TrainingArguments& args, const TrainedSettings& trained);

}  // namespace shoehorn
