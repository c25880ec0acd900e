// Opens the model that a command's arguments name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/model.h"

namespace shoehorn {

struct ModelSource {
  std::filesystem::path directory;  // empty for a named size (models/registry.h)
  std::unique_ptr<Model> model;
  std::vector<std::filesystem::path> companions;
  std::filesystem::path adapter;            // if the model is an adapter: its directory; else empty
  std::filesystem::path tokenizer() const;  // its directory: the adapter's own, else the base's
};

// Opens a directory or, with `allow_shapes`, a named size (which has no weights). With `need_weights` the
// directory must have weights. UserError for an adapter: training starts from its base.
ModelSource open_model(const std::string& name_or_path, bool allow_shapes, bool need_weights);

// Opens --model_name_or_path for running: a model, or an adapter in PEFT's format with its base. The
// adapter's settings are written to lora_* of `args`.
ModelSource open_trained_model(TrainingArguments& args);

}  // namespace shoehorn
