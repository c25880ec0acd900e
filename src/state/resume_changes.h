// Checks whether a run that resumes from a checkpoint is the run that was interrupted. It compares the
// arguments with the checkpoint's training_args.json, over the whole table of flags, whose rows say what each
// flag determines (ResumeRole); the model with its config.json; and data, tokenizer, base weights and machine
// with its RunIdentity.
//
// A difference is
//   refused                                           another state: which weights are trained, which states they have
//   refused, unless --allow_resume_changes is given   other samples, other numerics
//   shown                                             settings that may change between steps, or only round differently
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
  // What an older checkpoint does not record, so that it could not be compared.
  std::vector<std::string> unrecorded = {};
  // True if the metric or the evaluation data differ: the checkpoint's best metric cannot be compared then.
  bool forgets_best = false;
  // The samples of a step before, where there are others now on another number of ranks.
  std::optional<int64_t> batch_before = {};
};

// The run that is about to resume.
struct ResumingRun {
  const TrainingArguments& arguments;  // resolved, with the batch that was found
  const Model& model;
  const RunIdentity& identity;
  const WindowSchedule& schedule;
};

// UserError if files of the checkpoint cannot be read.
ResumeChanges compare_with_checkpoint(const std::filesystem::path& checkpoint, const ResumingRun& run);

// UserError naming every change that is not permitted. on_line gets the other changes, one per line.
void check_resume_changes(const std::filesystem::path& checkpoint, const ResumeChanges& changes,
                          bool allow_resume_changes,
                          const std::function<void(const std::string& line)>& on_line);

}  // namespace shoehorn
