// What --report_to writes while a run goes on: a log entry goes into each file as it is made.
//
//   tensorboard  event files in logging_dir, or output_dir/runs/<date>_<host>; tags as the Trainer's callback
//                writes them: train/loss, eval/accuracy, …, the arguments and the model's configuration as
//                text
//   jsonl        output_dir/log.jsonl, a JSON object a line
//
// A resumed run writes a new event file; in log.jsonl it goes on behind the entries up to the step it was
// resumed at, and those beyond it (of the run that was stopped) are dropped. A run from the start begins the
// file anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "arguments/training_arguments.h"
#include "io/append_file.h"
#include "model/score.h"
#include "report/event_file.h"

namespace shoehorn {

// "eval_loss" -> "eval/loss", "loss" -> "train/loss".
std::string tensorboard_tag(const std::string& name);

class RunReporter {
 public:
  // Opens the files. `config` is the model's config.json, or empty. UserError where log.jsonl of a resumed
  // run holds something else than JSON lines, SystemError where a file cannot be written.
  RunReporter(const TrainingArguments& args, const std::string& config, int64_t resumed_step);

  // An entry of log_history, with its step.
  void log(const Metrics& entry);

 private:
  std::optional<EventFile> events_;
  std::optional<AppendFile> lines_;
};

}  // namespace shoehorn
