// What --report_to writes during a run: each log entry goes into the files when it is made.
//
//   tensorboard  event files in logging_dir, or output_dir/runs/<date>_<host>; tags as written by the Trainer's
//                callback: train/loss, eval/accuracy, …; the arguments and the model's configuration as text
//   jsonl        output_dir/log.jsonl, one JSON object per line
//
// A resumed run writes a new event file. In log.jsonl it keeps the entries up to the step that it resumes
// from, drops the later ones (of the interrupted run), and appends. A run from the start begins a new file.
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

class LiveReports {
 public:
  // Opens the files. `config` is the text of the model's config.json, or empty. UserError if a resumed run's
  // log.jsonl is not JSON lines; SystemError if a file cannot be written.
  LiveReports(const TrainingArguments& args, const std::string& config, int64_t resumed_step);

  // Writes an entry of log_history, with its step.
  void log(const Metrics& entry);

 private:
  std::optional<EventFile> events_;
  std::optional<AppendFile> lines_;
};

}  // namespace shoehorn
