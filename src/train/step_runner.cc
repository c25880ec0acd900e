#include "train/step_runner.h"

#include <algorithm>
#include <limits>

#include "session/batch_feed.h"
#include "session/loss_scale_state.h"
#include "train/batch_scatter.h"

namespace shoehorn {

StepRunner::StepRunner(Session& session, StepProfile* profile, Communicator* ranks)
    : session_(session),
      profile_(profile),
      ranks_(ranks),
      is_one_program_(session.family().find(ProgramKind::kTrainStep).valid()) {
  counts_.reserve(kBatchAxes.size() * std::max<size_t>(1, session.family().train_batches.size()));
}

void StepRunner::begin(const StepStart& start) {
  const ScalarStorages& scalars = session_.family().scalars;
  Executor& executor = session_.executor();
  executor.write_scalar(scalars.step, static_cast<uint32_t>(start.step));
  executor.write_scalar(scalars.applied_updates, static_cast<uint32_t>(start.applied_updates));
  executor.write_scalar(scalars.target_count,
                        start.target_weight > 0 ? static_cast<float>(start.target_weight) : 1.0F);
  counts_.clear();
  needed_ = {};
}

void StepRunner::run_micro_batches(WindowIterator& windows, const Window& window) {
  if (session_.options().step.ranks.are_replicas()) {
    take_micro_batch(window, 0, ranks_->rank() < window.micro_batches,
                     [&](MicroBatch& batch) { scatter_micro_batches(*ranks_, windows, window, batch); });
    return;
  }
  for (int64_t m = 0; m < window.own_micro_batches; ++m) run_micro_batch(windows, window, m);
}

void StepRunner::run_micro_batch(WindowIterator& windows, const Window& window, int64_t index) {
  take_micro_batch(window, index, index < window.counted_micro_batches,
                   [&](MicroBatch& batch) { windows.load(index, batch); });
}

template <typename Load>
void StepRunner::take_micro_batch(const Window& window, int64_t index, bool counts, const Load& load) {
  const ProgramFamily& family = session_.family();
  if (!counts) {
    session_.executor().write_scalar(family.scalars.target_count, std::numeric_limits<float>::infinity());
  }
  MicroBatchInputs inputs(session_.executor(),
                          family.train_batches[static_cast<size_t>(is_one_program_ ? index : 0)]);
  const double begin = now_seconds();
  load(inputs.batch());
  inputs.send();
  const double end = now_seconds();
  data_wait_seconds_ += end - begin;
  if (profile_ != nullptr) profile_->host_work(HostWork::kDataWait, begin, end);
  append_counts(inputs.batch(), counts_);
  const BatchCapacity needed = needed_capacity(inputs.batch());
  if (is_one_program_) {
    needed_ = larger_of(needed_, needed);
    return;
  }
  run_loaded(window, index, needed);
  counts_.clear();
}

// In micro-batch order: the micro-batch that is in the program's inputs. Behind the last one gradients have gone around.
void StepRunner::run_loaded(const Window& window, int64_t index, const BatchCapacity& needed) {
  const ProgramFamily& family = session_.family();
  const ProgramId exchange = family.find(ProgramKind::kExchange);
  const bool is_last = exchange.valid() && index + 1 == window.own_micro_batches;
  ProgramKind kind = ProgramKind::kMicroBatchNext;
  if (index == 0) {
    kind = ProgramKind::kMicroBatchFirst;
  } else if (is_last) {
    kind = ProgramKind::kMicroBatchLast;
  }
  run(family.find(kind, family.train_buckets.smallest_for(needed)), counts_);
  if (index == 0 && is_last) run(exchange, {});
}

void StepRunner::run(ProgramId program, std::span<const int64_t> counts) {
  std::span<NodeTimes> times;
  if (profile_ != nullptr) times = profile_->begin_run(program, counts);
  session_.executor().run(program, counts, times);
}

void StepRunner::outer_update() {
  run(session_.family().find(ProgramKind::kOuterUpdate), {});
}

StepResult StepRunner::finish(double learning_rate) {
  const ProgramFamily& family = session_.family();
  Executor& executor = session_.executor();
  executor.write_scalar(family.scalars.learning_rate, static_cast<float>(learning_rate));
  if (const ProgramId replicate = family.find(ProgramKind::kReplicate); replicate.valid()) run(replicate, {});
  if (is_one_program_) {
    // Micro-batches that a short last window lacks have no tokens.
    counts_.resize(kBatchAxes.size() * family.train_batches.size(), 0);
    run(family.find(ProgramKind::kTrainStep, family.train_buckets.smallest_for(needed_)), counts_);
  } else {
    run(family.find(ProgramKind::kUpdate), {});
  }
  StepResult result{.loss = executor.read_scalar<float>(family.loss)};
  if (family.grad_norm.valid()) result.grad_norm = executor.read_scalar<float>(family.grad_norm);
  result.is_skipped = was_skipped(executor, family.loss_scale);
  return result;
}

}  // namespace shoehorn
