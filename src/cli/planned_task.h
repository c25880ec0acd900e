// What `plan` and `fit` look at: a model and data, real ones or as many samples of the longest length as fill a
// micro-batch.
#pragma once

#include <string>

#include "arguments/argument_table.h"
#include "cli/model_source.h"
#include "data/dataset.h"
#include "ranks/communicator.h"

namespace shoehorn {

struct PlannedTask {
  TrainingArguments arguments;
  ModelSource source;
  Dataset train, validation;
  bool has_samples = false;  // of a training file
  std::string text;          // for people: what was found in the files
};

// Opens the model and loads the data that the arguments name. `ranks`: as load_text_task takes them.
PlannedTask open_planned_task(const ParsedArguments& parsed, Communicator* ranks = nullptr);

}  // namespace shoehorn
