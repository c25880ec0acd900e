// A run that is planned: the programs and the memory of a model for given arguments and data, reserved when the run
// begins. The Trainer and a loop of one's own (accelerator.h) share it.
//
//   PlannedRun run(model, args, {.train = &dataset});
//   run.forecast();  // what the run will take; nothing is reserved yet
//   run.reserve();
//   run.runner().begin({.step = 0, …});
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "analysis/step_profile.h"
#include "arguments/step_settings.h"
#include "arguments/training_arguments.h"
#include "data/dataset.h"
#include "data/window_iterator.h"
#include "fit/memory_alternatives.h"
#include "model/model_builder.h"
#include "optim/optimizer.h"
#include "ranks/communicator.h"
#include "session/memory_forecast.h"
#include "session/session.h"
#include "train/step_runner.h"

namespace shoehorn {

struct RunData {
  const Dataset* train = nullptr;       // null or empty: the run only evaluates
  const Dataset* evaluation = nullptr;  // null or empty: the run only trains
};

struct PlannedRunOptions {
  std::optional<OptimizerOptions> optimizer = {};     // in place of what the arguments say
  std::vector<ParameterGroup> optimizer_groups = {};  // in place of the two of the Trainer
  std::shared_ptr<const Backend> backend = {};        // null: the CPU (exec/backends.h)
  std::shared_ptr<Communicator> ranks = {};           // of args.world_size ranks; null: of one
  int64_t profile_steps = 0;  // that the profile records (analysis/step_profile.h); 0: no profile
  // The most that the caller will hold besides what it holds when the run is planned. The forecast counts it.
  int64_t caller_bytes = 0;
  // True if a smaller plan is tried when this one does not fit. Its forecast then stops where that is clear.
  bool has_smaller_plan = false;
};

// The session of a run, on rank `rank` of args.world_size. Data without samples are none.
SessionOptions session_options_of(const Model& model, const TrainingArguments& args, const RunData& data,
                                  int32_t rank = 0);

// UserError that names `ulimit -l` and the bytes if fewer may be locked in memory than a run would lock.
void check_lockable(int64_t bytes, int64_t lockable_bytes);

class PlannedRun {
 public:
  // Plans, and reserves nothing. Model, arguments and data must outlive the run. UserError for settings that do not go
  // together.
  PlannedRun(const Model& model, const TrainingArguments& args, RunData data, PlannedRunOptions options = {});
  ~PlannedRun();
  PlannedRun(const PlannedRun&) = delete;
  PlannedRun& operator=(const PlannedRun&) = delete;

  bool trains() const { return windows_ != nullptr; }

  const Session& session() const { return *session_; }
  Session& session() { return *session_; }
  Executor& executor() { return session_->executor(); }
  const MemoryForecast& forecast() const { return forecast_; }
  // The changes that would make a run fit that does not.
  Alternatives alternatives() const;
  // How a session of other arguments is made. The model and the data must outlive it, this run need not.
  SessionOfArguments session_of_arguments() const;
  // Null without profile_steps.
  StepProfile* profile() const { return profile_.get(); }

  // The effective batches and the steps of a run that trains.
  WindowIterator& windows() const { return *windows_; }
  StepRunner& runner() { return *runner_; }

  // Reserves the memory, once. DoesNotFit (base/user_error_kinds.h) with the refusal and the alternatives if the plan
  // exceeds the budget; UserError, before anything is reserved, where lock_memory asks for more than may be locked.
  void reserve();

 private:
  const Model& model_;
  const TrainingArguments& args_;
  RunData data_;
  bool keeps_optimizer_;
  std::unique_ptr<WindowIterator> windows_;  // packs into the session's staging
  std::unique_ptr<Session> session_;
  std::unique_ptr<StepProfile> profile_;
  std::optional<StepRunner> runner_;
  MemoryForecast forecast_;
};

// The ranks of a plan that share the host's memory by default: --ranks_per_host, or all where it has a processor for each. Where it
// has not, nobody knows how many a host has, and a rank counts as alone.
int64_t ranks_sharing_memory(const TrainingArguments& args, const Backend& backend);

}  // namespace shoehorn
