// What a run writes about itself beside its checkpoints: log entries into the live reports as they are made
// (live_reports.h), the page of --report_to html, and the profile.
//
// The page is written when training begins, at each checkpoint and at the end, and with log entries between: at most every
// three seconds, and so seldom that writing it takes at most 1% of the time (writing_pace.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/score.h"
#include "state/trainer_state.h"
#include "train/html_report.h"
#include "train/live_reports.h"
#include "train/planned_run.h"
#include "train/writing_pace.h"

namespace shoehorn {

class RunReports {
 public:
  // All of them must outlive the reports. `evaluation`: details of the last evaluation so far.
  RunReports(const TrainingArguments& args, const PlannedRun& run, TrainerState& state,
             const ScoreDetails& evaluation)
      : args_(args), run_(run), state_(state), evaluation_(evaluation) {}

  // Opens the live reports and writes the page for the first time. `model_config` is the model's config.json. Errors of
  // LiveReports.
  void open(const std::string& model_config);

  // Adds an entry to the state's log_history and to the live reports; returns it with its epoch and step.
  const Metrics& log(Metrics entry);

  // Counts an optimizer step into the throughput since the last log entry.
  void add_step(double seconds, int64_t samples);
  // Call it with each log entry of training: the throughput's next point begins.
  void end_throughput();

  // Writes the page, if it is asked for, with what there is so far. SystemError if it cannot be written.
  void write_page();
  // The same, and the page says from now on that the run is over. `reason`: why before its last step; may be empty.
  void end_page(RunStatus status, Metrics end_metrics, std::string reason = {});

 private:
  void write_page_if_due();

  const TrainingArguments& args_;
  const PlannedRun& run_;
  TrainerState& state_;
  const ScoreDetails& evaluation_;
  std::optional<LiveReports> live_;
  std::vector<Throughput> throughput_;
  double seconds_since_log_ = 0;
  int64_t samples_since_log_ = 0;
  double step_seconds_ = 0;  // of all steps that were added
  int64_t steps_ = 0;
  RunStatus status_ = RunStatus::kEnded;  // running from open() on
  Metrics end_metrics_;
  std::string end_reason_;
  WritingPace page_pace_;
};

}  // namespace shoehorn
