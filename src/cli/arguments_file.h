// training_args.json in output_dir: with --config it starts the same run again.
#pragma once

#include <nlohmann/json.hpp>

#include "train/trainer_callback.h"

namespace shoehorn {

// Writes the arguments of the command line when training begins, so that a run that is refused, or whose model cannot
// be read, leaves no file. A run that begins anew removes the results of an earlier one, to which its own would be added.
class ArgumentsFile : public TrainerCallback {
 public:
  // `given`: resolved, before anything was fitted to the model.
  explicit ArgumentsFile(const TrainingArguments& given) : given_(to_json(given)) {}

  void on_train_begin(const TrainingArguments& args, const TrainerState& state,
                      TrainerControl& control) override;

 private:
  nlohmann::json given_;
};

}  // namespace shoehorn
