#include "train/planned_run.h"

#include <thread>

#include "analysis/find_anomaly.h"
#include "base/error.h"
#include "base/format.h"
#include "base/memory_limit.h"
#include "base/rounding.h"
#include "base/user_error_kinds.h"
#include "exec/backends.h"
#include "fit/memory_refusal.h"
#include "session/batching.h"
#include "train/class_weights.h"
#include "train/evaluation.h"

namespace shoehorn {

namespace {

bool has_samples(const Dataset* dataset) {
  return dataset != nullptr && dataset->size() > 0;
}

}  // namespace

SessionOptions session_options_of(const Model& model, const TrainingArguments& args, const RunData& data,
                                  int32_t rank) {
  SessionOptions session;
  session.threads = static_cast<int>(args.num_threads.value_or(0));
  session.step = step_options_of(args);
  session.step.class_weights = class_weights_of(args, model.task(), data.train);
  if (has_samples(data.train)) {
    make_room_for(window_needs_of(args, *data.train, rank), args, session);
  } else {
    session.kind = RunKind::kEvaluate;
  }
  if (has_samples(data.evaluation)) {
    session.evaluation =
        batch_capacity_of(*data.evaluation, args.per_device_eval_batch_size, padding_of(args));
    session.score_bytes = model.task().score_bytes(data.evaluation->size());
  }
  return session;
}

PlannedRun::PlannedRun(const Model& model, const TrainingArguments& args, RunData data,
                       PlannedRunOptions options)
    : model_(model), args_(args), data_(data), keeps_optimizer_(options.optimizer.has_value()) {
  const int32_t rank = options.ranks ? options.ranks->rank() : 0;
  SessionOptions session = session_options_of(model, args, data, rank);
  if (has_samples(data.train)) {
    windows_ = make_windows(args, *data.train, rank);
    windows_->set_class_weights(session.step.class_weights);
  }
  session.backend = std::move(options.backend);
  session.step.ranks.rank = rank;
  if (options.ranks) {
    if (!session.backend) session.backend = make_backend(kDefaultBackend, session.threads, options.ranks);
    session.executor.heeds_stops = false;
  }
  if (options.optimizer) session.step.optimizer = *options.optimizer;
  session.step.decay_of = decay_of_groups(options.optimizer_groups);
  session_ = std::make_unique<Session>(model, std::move(session));
  const ProgramFamily& family = session_->family();
  if (has_samples(data.train)) check_columns_are_read(*data.train, family.train_batches[0], "training");
  if (has_samples(data.evaluation))
    check_columns_are_read(*data.evaluation, family.evaluation_batch, "evaluation");
  // Before the forecast, which counts its bytes.
  if (options.profile_steps > 0) profile_ = std::make_unique<StepProfile>(*session_, options.profile_steps);
  if (trains()) runner_.emplace(*session_, profile_.get(), options.ranks.get());
  const int64_t local_ranks =
      options.ranks ? options.ranks->local_size() : ranks_sharing_memory(args, session_->backend());
  if (options.has_smaller_plan) {
    forecast_ = forecast_least_memory(*session_, args.memory_budget, local_ranks);
    forecast_.process_overhead_bytes += options.caller_bytes;
    if (!forecast_.fits()) return;
  }
  forecast_ = forecast_memory(*session_, args.memory_budget, local_ranks);
  forecast_.process_overhead_bytes += options.caller_bytes;
}

PlannedRun::~PlannedRun() = default;

int64_t ranks_sharing_memory(const TrainingArguments& args, const Backend& backend) {
  const int64_t processors =
      backend.can_run() ? std::thread::hardware_concurrency() : backend.machine().threads;
  const bool is_known = args.ranks_per_host || args.world_size <= processors;
  return is_known ? ranks_of_host(args) : 1;
}

void check_lockable(int64_t bytes, int64_t lockable_bytes) {
  constexpr int64_t kKibibyte = 1024;
  if (bytes <= lockable_bytes) return;
  throw user_error(
      "[--lock_memory] expected that {} may be locked in memory, got {}; allow it by `ulimit -l {}`, or leave the flag out",
      format_bytes(bytes), format_bytes(lockable_bytes), ceil_divide(bytes, kKibibyte));
}

SessionOfArguments PlannedRun::session_of_arguments() const {
  const SessionOptions& own = session_->options();
  const std::optional<OptimizerOptions> optimizer =
      keeps_optimizer_ ? std::optional(own.step.optimizer) : std::nullopt;
  return
      [&model = model_, data = data_, backend = own.backend, heeds_stops = own.executor.heeds_stops,
       rank = own.step.ranks.rank, decay_of = own.step.decay_of, optimizer](const TrainingArguments& args) {
        SessionOptions other = session_options_of(model, args, data);
        other.backend = backend;
        other.executor.heeds_stops = heeds_stops;
        other.step.ranks.rank = rank;
        other.step.decay_of = decay_of;
        if (optimizer) other.step.optimizer = *optimizer;
        return other;
      };
}

Alternatives PlannedRun::alternatives() const {
  return find_alternatives(
      model_, session_of_arguments(), args_, forecast_,
      {.keeps_optimizer = keeps_optimizer_, .keeps_state = !args_.resume_from_checkpoint.empty()});
}

void PlannedRun::reserve() {
  if (!forecast_.fits()) throw DoesNotFit(format_refusal(forecast_, alternatives()));
  if (session_->is_reserved()) return;
  if (args_.lock_memory) check_lockable(forecast_.arena_bytes(), lockable_memory_bytes());
  session_->reserve();
  if (args_.lock_memory) executor().lock_memory();
  if (trains()) windows_->stage_in(session_->staging());
  // Gradients that overflow are the business of a loss scale, which skips their step.
  if (args_.detect_anomaly)
    watch_for_anomaly(session_->executor(), session_->family().loss_scale.found_inf.valid());
}

}  // namespace shoehorn
