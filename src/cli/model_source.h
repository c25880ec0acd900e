// Opens the model that a command's arguments name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "arguments/argument_table.h"
#include "arguments/training_arguments.h"
#include "model/model.h"

namespace shoehorn {

struct ModelSource {
  std::filesystem::path directory;  // empty for a new model and a named size (models/registry.h)
  std::unique_ptr<Model> model;
  std::vector<std::filesystem::path> companions;
  std::filesystem::path adapter;         // if the model is an adapter: its directory; else empty
  std::filesystem::path tokenizer_name;  // --tokenizer_name
  // The tokenizer's directory: the one named, else the adapter's own, else the model's.
  std::filesystem::path tokenizer() const;
};

// Whether the arguments name a new model, which has no weights, by config_name or model_type.
bool names_new_model(const TrainingArguments& args);

// Opens a directory or, with `allow_shapes`, a named size (which has no weights). With `need_weights` the
// directory must have weights. `task`: --task, which says the head; empty: the model does. UserError for an adapter:
// training starts from its base.
ModelSource open_model(const std::string& name_or_path, const std::string& task, bool allow_shapes,
                       bool need_weights);
// The same for model_name_or_path of the arguments, or a new model if config_name or model_type is given.
ModelSource open_model(const TrainingArguments& args, bool allow_shapes, bool need_weights);

// Whether the model predicts next tokens.
bool is_language_model(const Model& model);

// Opens --model_name_or_path for running: a model, or an adapter in PEFT's format with its base. The
// adapter's settings are written to lora_* of `args`. UserError if a model that classifies has no head.
ModelSource open_trained_model(TrainingArguments& args);

// Opens --model_name_or_path for training: as open_model does, or an adapter that is trained on, with its base. The
// adapter's settings are written to lora_* of `args`; UserError if `parsed` sets others (lora_dropout may be another).
ModelSource open_model_to_train(const ParsedArguments& parsed, TrainingArguments& args);

}  // namespace shoehorn
