// Checkpoints of a run: output_dir/checkpoint-N, in the layout of the Hugging Face Trainer with our own state
// files.
//
//   config.json, model.safetensors, tokenizer files   the model, loadable by transformers; of a model with
//   adapters adapter_config.json, adapter_model.safetensors and model_config.json, loadable by PEFT
//   optimizer.safetensors                             "<parameter>.<state>" in the parameter's shape
//   trainer_state.json, training_args.json            as the Trainer names them
//   shoehorn_state.json                               position in data and log, loss scale, plateau, RunIdentity
//
// A checkpoint is complete or absent (io/checkpoint_directory.h). It knows logical tensors only, never a
// physical layout.
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/model_builder.h"
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
  const std::vector<std::filesystem::path>& companions;  // files copied unchanged
  const OriginalWeights* originals = nullptr;            // what the weights came from; null: from nowhere
  const RunIdentity* identity = nullptr;  // null: unknown, so that a resume compares arguments alone
};

// Config, weights (or adapters) and companions into a directory, which is made where absent, with a manifest of the
// weights. UserError where another run has it (io/directory_lock.h). `merges`: adapters are merged into the base's
// weights, and the whole model is saved.
void save_model_directory(const CheckpointContents& contents, const Executor& executor,
                          const std::filesystem::path& directory, bool merges = false);

// Writes output_dir/checkpoint-<global_step>; returns its path.
std::filesystem::path save_checkpoint(const CheckpointContents& contents, const Executor& executor);

// Loads weights and optimizer state into the session's executor and returns where the run stood. Of a run
// with adapters the checkpoint has those only: the weights are those of `base`. UserError where the
// checkpoint lacks the state of the arguments' reduce_lr_on_plateau; whether it is of the run that the
// arguments say is for state/resume_changes.h.
struct ResumedRun {
  TrainerState state;
  RunPosition position;
  std::optional<LossScaleValues> loss_scale;  // of a float16 run
  // What the weights were read from, with adapters the base's; none: they are new, adapters aside.
  std::optional<OriginalWeights> originals = {};
  std::vector<std::string> unused = {};  // tensors of those that the model has no parameter for
};
ResumedRun load_checkpoint(const std::filesystem::path& checkpoint, const TrainingArguments& arguments,
                           Session& session, const std::filesystem::path& base = {});

// Where the best model of a resumed run is now: beside the checkpoint, since output directories are moved,
// and named relative to directories that the resuming run is not in; else as `recorded`. None: in neither
// place.
std::optional<std::string> find_best_model(const std::filesystem::path& checkpoint,
                                           const std::string& recorded);

// The checkpoint that --resume_from_checkpoint names: a directory, or for "true" the newest complete one with a
// number below `below`. Skipped incomplete ones are appended to `notes`. UserError where there is none.
std::filesystem::path find_checkpoint(const TrainingArguments& arguments, std::vector<std::string>& notes,
                                      int64_t below = std::numeric_limits<int64_t>::max());

// Runs load(checkpoint) for the checkpoint that --resume_from_checkpoint names, and returns that path. Where `load`
// finds it damaged (DamagedFile): for "true" the next newest complete one is loaded, the steps in between are done
// again, and `notes` says so; a checkpoint that was named is a UserError that says which one to take.
std::filesystem::path resume_checkpoint(const TrainingArguments& arguments, std::vector<std::string>& notes,
                                        const std::function<void(const std::filesystem::path&)>& load);

}  // namespace shoehorn
