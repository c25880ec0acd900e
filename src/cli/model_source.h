// The model that a command's arguments name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/model.h"

namespace shoehorn {

struct ModelSource {
  std::filesystem::path directory;  // empty for a shape that has a name (models/registry.h)
  std::unique_ptr<Model> model;
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

}  // namespace shoehorn
