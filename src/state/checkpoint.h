// Checkpoints of a run: output_dir/checkpoint-N, in the layout of the Hugging Face Trainer with our own state
// files.
//
//   config.json, model.safetensors, tokenizer files   the model, loadable by transformers. For a model with adapters:
//   adapter_config.json, adapter_model.safetensors    and model_config.json instead, loadable by PEFT
//   optimizer.safetensors                             "<parameter>.<state>" in the parameter's shape
//   trainer_state.json, training_args.json            named as in the Trainer
//   shoehorn_state.json                               position in data and log, loss scale, plateau, RunIdentity
//
// A checkpoint is complete or absent (io/checkpoint_directory.h). It contains logical tensors, never a
// physical layout.
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/model_builder.h"
#include "ranks/communicator.h"
#include "session/session.h"
#include "state/original_weights.h"
#include "state/resume_state.h"
#include "state/trainer_state.h"

namespace shoehorn {

struct CheckpointContents {
  const Model& model;
  const Session& session;
  const TrainingArguments& arguments;
  const TrainerState& state;
  const RunPosition& position;
  const std::vector<std::filesystem::path>& companions;  // files to copy unchanged
  const OriginalWeights* originals = nullptr;            // the files of the weights; null: none
  const RunIdentity* identity = nullptr;  // null: unknown, so that a resume compares arguments alone
  // The ranks that have parts of weights and states, and write them together: all of them call the functions below. Null:
  // all is here.
  Communicator* ranks = nullptr;
};

// Writes config, weights (or adapters) and companions to a directory, which is created if it does not exist,
// with a manifest of the weights. UserError if another run has the directory (io/directory_lock.h). `merges`:
// adapters are merged into the base's weights, and the whole model is saved. Of several ranks each writes its part into a
// directory below this one, of which the first makes the model's files, a piece at a time; of adapters, and of what they are
// merged into, the others send the first what they have.
void save_model_directory(const CheckpointContents& contents, const Executor& executor,
                          const std::filesystem::path& directory, bool merges = false);

// Writes output_dir/checkpoint-<global_step> and returns its path. Of several ranks each writes its part of weights and
// states (io/owner.h), and the first all else.
std::filesystem::path save_checkpoint(const CheckpointContents& contents, const Executor& executor);

// Loads weights and optimizer states into the session's executor and returns the position of the run. A
// checkpoint of a run with adapters has only those; the weights come from `base`. UserError if the checkpoint
// lacks the state of reduce_lr_on_plateau that the arguments need. state/resume_changes.h checks that the
// checkpoint belongs to the run.
struct ResumedRun {
  TrainerState state;
  RunPosition position;
  std::optional<LossScaleValues> loss_scale;  // float16 runs
  // The files that the weights were read from (with adapters: the base's); none if they are new.
  std::optional<OriginalWeights> originals = {};
  std::vector<std::string> unused = {};  // tensors without a parameter in the model
};
ResumedRun load_checkpoint(const std::filesystem::path& checkpoint, const TrainingArguments& arguments,
                           Session& session, const std::filesystem::path& base = {});

// Finds the best model of a resumed run. It is looked for beside the checkpoint, since output directories may
// have been moved or named relative to another directory; then at `recorded`. nullopt if it is in neither
// place.
std::optional<std::string> find_best_model(const std::filesystem::path& checkpoint,
                                           const std::string& recorded);

// The checkpoint that --resume_from_checkpoint names: a directory, or for "true" the newest complete one with
// a number less than `below`. Skipped incomplete ones are appended to `notes`. UserError if there is none.
std::filesystem::path find_checkpoint(const TrainingArguments& arguments, std::vector<std::string>& notes,
                                      int64_t below = std::numeric_limits<int64_t>::max());

// Calls load(checkpoint) for the checkpoint that --resume_from_checkpoint names, and returns its path. If
// `load` finds it damaged (DamagedFile): for "true" the next newest complete one is loaded, and `notes` says
// that the steps in between are repeated; for a named checkpoint it is a UserError that says which one to
// take.
std::filesystem::path resume_checkpoint(const TrainingArguments& arguments, std::vector<std::string>& notes,
                                        const std::function<void(const std::filesystem::path&)>& load);

}  // namespace shoehorn
