// Whether a run that goes on from a checkpoint is the run that was interrupted. Arguments are compared with the
// checkpoint's training_args.json over the whole table of flags, whose rows say what each decides (ResumeRole);
// the model with its config.json; data, tokenizer, base weights and machine with its RunIdentity.
//
// What differs is
//   refused by name                                another state: which weights are trained, which states they have
//   refused, unless --allow_resume_changes is given   other samples, other numerics
//   shown                                          what may change between two steps, and what only rounds differently
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "arguments/argument_table.h"
#include "data/window_schedule.h"
#include "model/model_builder.h"
#include "state/run_identity.h"

namespace shoehorn {

struct ResumeChange {
  std::string what;  // "--seed", "training data", "config.json: hidden_dropout_prob"
  std::string before;
  std::string now;
  ResumeRole role = ResumeRole::kFree;
};

struct ResumeChanges {
  std::vector<ResumeChange> list = {};  // kState, kSamples, kNumerics or kFree
  // What an older checkpoint does not say, so that it was not compared.
  std::vector<std::string> unrecorded = {};
  // Another metric, or other evaluation data: what the checkpoint calls its best cannot be compared.
  bool forgets_best = false;
};

// The run that is about to go on.
struct ResumingRun {
  const TrainingArguments& arguments;  // resolved, with the batch that was found
  const Model& model;
  const RunIdentity& identity;
  const WindowSchedule& schedule;
};

// UserError for files of the checkpoint that cannot be read.
ResumeChanges compare_with_checkpoint(const std::filesystem::path& checkpoint, const ResumingRun& run);

// Throws UserError naming every change that is not permitted. on_line is told of the others, a line each.
void check_resume_changes(const std::filesystem::path& checkpoint, const ResumeChanges& changes,
                          bool allow_resume_changes,
                          const std::function<void(const std::string& line)>& on_line);

}  // namespace shoehorn
