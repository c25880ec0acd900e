#include "train/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/stop_request.h"
#include "io/checkpoint_directory.h"
#include "ranks/agreement.h"
#include "session/loss_scale_state.h"

namespace shoehorn {

namespace {

int64_t weights_beside_embeddings(const StateTable& state) {
  int64_t weights = 0;
  for (const Parameter& parameter : state.parameters()) {
    if (state.storage(parameter.storage).region.component != Component::kEmbeddings)
      weights += parameter.global_elements();
  }
  return weights;
}

// True for what an evaluation measured, apart from its loss and its speed.
bool is_score(const std::string& name) {
  return name.starts_with("eval_") && name != "eval_loss" && name != "eval_runtime" &&
         !name.ends_with("_per_second");
}

std::string log_text(const Metrics& entry) {
  std::string text;
  const auto add = [&](const char* name) {
    const auto found = entry.find(name);
    if (found == entry.end()) return;
    const double value = metric_number(found->second);
    const std::string number = std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);  // no sign of a NaN
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", name, number);
  };
  for (const char* name :
       {"step", "epoch", "loss", "grad_norm", "learning_rate", "loss_scale", "skipped_steps", "eval_loss"})
    add(name);
  for (const auto& [name, value] : entry) {
    if (is_score(name)) add(name.c_str());
  }
  return text;
}

// While it lives, a progress shows how far the running step is.
class StepWatch {
 public:
  StepWatch(Executor& executor, StepShare& share, Progress& progress) : executor_(executor) {
    executor_.set_before_node([&share, &progress](ProgramId program, size_t node) {
      if (const auto done = share.before(program, node)) progress.move_within_step(*done);
    });
  }
  ~StepWatch() { executor_.set_before_node({}); }
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

 private:
  Executor& executor_;
};

}  // namespace

TrainingLoop::TrainingLoop(TrainingLoopParts parts)
    : parts_(std::move(parts)),
      share_(parts_.run.session().family()),
      first_step_(parts_.state.global_step),
      first_nonfinite_losses_(parts_.position.nonfinite_losses),
      // Forward and backward take six operations a token and weight that is no embedding.
      flops_a_token_(6.0 * static_cast<double>(weights_beside_embeddings(parts_.run.session().state()))) {}

void TrainingLoop::evaluate_untrained(Progress& progress) {
  log_evaluation(progress);
}

void TrainingLoop::run(Progress& progress) {
  const StepWatch watch(parts_.run.executor(), share_, progress);
  finish_last_step(progress);
  const WindowSchedule& schedule = parts_.run.windows().schedule();
  for (ResumePoint point = schedule.resume_point(scheduled_steps()); !is_over(point);
       point = {point.epoch + 1, 0}) {
    run_epoch(point, progress);
    end_epoch(progress);
  }
  end_steps_alone();
}

// Steps of the schedule that are behind: those that were taken, and those that a callback left out.
int64_t TrainingLoop::scheduled_steps() const {
  return parts_.state.global_step + parts_.position.skipped_in_epochs;
}

bool TrainingLoop::is_over(const ResumePoint& point) const {
  const TrainerState& state = parts_.state;
  // Epochs that callbacks cut short leave steps below max_steps.
  const bool is_behind_epochs =
      parts_.position.skipped_in_epochs > 0 && point.epoch >= state.num_train_epochs;
  return state.control.should_training_stop || state.global_step >= state.max_steps || is_behind_epochs;
}

// What a stop, or a kill behind a checkpoint, kept from being done after the last step.
void TrainingLoop::finish_last_step(Progress& progress) {
  TrainerState& state = parts_.state;
  RunPosition& position = parts_.position;
  if (position.due) {
    state.control |= *position.due;
    // The resumed run may have no evaluation set any more.
    if (!parts_.run.session().family().find(ProgramKind::kEvaluate).valid())
      state.control.should_evaluate = false;
    do_what_is_due(progress);
  }
  if (position.is_epoch_ended) return;
  const ResumePoint point = parts_.run.windows().schedule().resume_point(scheduled_steps());
  if (point.update_step == 0 || is_over(point)) end_epoch(progress);
}

void TrainingLoop::run_epoch(const ResumePoint& point, Progress& progress) {
  TrainerState& state = parts_.state;
  TrainerControl& control = state.control;
  WindowIterator& windows = parts_.run.windows();
  StepProfile* profile = parts_.run.profile();
  const auto epoch_batches = static_cast<double>(windows.schedule().micro_batches_per_epoch());
  control.should_epoch_stop = false;
  parts_.callbacks.each(
      [&](TrainerCallback& callback) { callback.on_epoch_begin(parts_.args, state, control); });
  Window window;
  windows.start_epoch(point.epoch, point.update_step);
  while (next_window(window)) {
    begin_step();
    const double begin = now_seconds();
    step_or_drop(window);
    step_seconds_.push_back(now_seconds() - begin);
    step_sizes_.push_back({window.samples, window.tokens});
    parts_.reports.add_step(step_seconds_.back(), window.samples);
    const int64_t done = window.first_micro_batch + window.micro_batches;
    state.epoch = static_cast<double>(window.epoch) + static_cast<double>(done) / epoch_batches;
    const TrainerControl asked = control;
    decide_after_step(parts_.args, state);
    control |= asked;
    parts_.callbacks.each(
        [&](TrainerCallback& callback) { callback.on_step_end(parts_.args, state, control); });
    // Before what is due, which may take long: the bar shows the step that is finished.
    progress.update(state.global_step, samples_,
                    parts_.run.executor().read_scalar<float>(parts_.run.session().family().loss));
    do_what_is_due(progress);
    if (profile != nullptr) profile->end_step();
    if (control.should_epoch_stop || control.should_training_stop) return;
  }
}

// Also where max_steps or a callback ends it early, as in the Trainer.
void TrainingLoop::end_epoch(Progress& progress) {
  TrainerState& state = parts_.state;
  parts_.position.is_epoch_ended = true;
  const TrainerControl asked = state.control;
  decide_after_epoch(parts_.args, state);
  state.control |= asked;
  parts_.callbacks.each(
      [&](TrainerCallback& callback) { callback.on_epoch_end(parts_.args, state, state.control); });
  do_what_is_due(progress);
}

void TrainingLoop::begin_step() {
  TrainerState& state = parts_.state;
  state.control.should_log = state.control.should_evaluate = state.control.should_save = false;
  parts_.callbacks.each(
      [&](TrainerCallback& callback) { callback.on_step_begin(parts_.args, state, state.control); });
  if (state.global_step == first_step_) parts_.on_first_step();
}

bool TrainingLoop::next_window(Window& window) {
  StepProfile* profile = parts_.run.profile();
  const double begin = now_seconds();
  if (!parts_.run.windows().next_window(window)) return false;
  // The first step meets cold caches and untouched code: it is not profiled.
  if (profile != nullptr && parts_.state.global_step > first_step_)
    profile->begin_step(parts_.state.global_step + 1, begin);
  const double end = now_seconds();
  window_wait_seconds_ += end - begin;
  if (profile != nullptr) profile->host_work(HostWork::kDataWait, begin, end);
  return true;
}

void TrainingLoop::step_or_drop(const Window& window) {
  try {
    take_step(window);
  } catch (const Stopped&) {
    if (StepProfile* profile = parts_.run.profile(); profile != nullptr) profile->drop_step();
    throw;
  }
}

// One optimizer step: all micro-batches of a window. Nothing of the state moves before it is done.
void TrainingLoop::take_step(const Window& window) {
  if (parts_.ranks != nullptr && !is_alone_) agree_on_stop(*parts_.ranks);
  TrainerState& state = parts_.state;
  RunPosition& position = parts_.position;
  StepRunner& runner = parts_.run.runner();
  last_learning_rate_ = parts_.learning_rate.next(position);
  share_.begin_step(window.own_micro_batches);
  runner.begin({state.global_step, position.applied_updates, window.target_weight});
  runner.run_micro_batches(parts_.run.windows(), window);
  const StepResult result = runner.finish(last_learning_rate_);
  add_loss(window, result.loss);
  last_grad_norm_ = result.grad_norm;
  ++(result.is_skipped ? position.skipped_steps : position.applied_updates);
  ++state.global_step;
  position.is_epoch_ended = false;
  position.samples_consumed += window.samples;
  samples_ += window.samples;
  if (parts_.args.include_num_input_tokens_seen != "no") state.num_input_tokens_seen += window.tokens;
  state.total_flos += static_cast<double>(window.tokens) * flops_a_token_;
  is_alone_ = local_steps() > 0;
  if (is_alone_ && state.global_step % local_steps() == 0) end_steps_alone();
}

int64_t TrainingLoop::local_steps() const {
  return parts_.run.session().options().step.ranks.local_steps();
}

void TrainingLoop::add_loss(const Window& window, float loss) {
  if (local_steps() > 0) {
    ++own_losses_.steps;
    own_losses_.nonfinite += std::isfinite(loss) ? 0 : 1;
    if (window.counted_micro_batches == 0 || window.target_weight == 0) return;
    ++own_losses_.counted;
    own_losses_.sum += loss;
    return;
  }
  if (!std::isfinite(loss)) ++parts_.position.nonfinite_losses;
  parts_.position.loss_since_log += loss;
}

// The mean over ranks of what each had of its own targets; none where no rank had any.
void TrainingLoop::share_losses() {
  if (own_losses_.steps == 0) return;
  OwnLosses all;
  for (const OwnLosses& one : gather_values(*parts_.ranks, own_losses_)) {
    all.sum += one.sum;
    all.counted += one.counted;
    all.nonfinite = std::max(all.nonfinite, one.nonfinite);
  }
  const double mean = all.counted == 0 ? 0 : all.sum / static_cast<double>(all.counted);
  parts_.position.loss_since_log += mean * static_cast<double>(own_losses_.steps);
  parts_.position.nonfinite_losses += all.nonfinite;
  own_losses_ = {};
}

// Every so many steps, and before whatever needs one model.
void TrainingLoop::end_steps_alone() {
  if (!is_alone_) return;
  parts_.run.runner().outer_update();
  share_losses();
  is_alone_ = false;
}

// A callback that ends an epoch leaves the rest of its steps out of the schedule.
void TrainingLoop::skip_rest_of_epoch() {
  const WindowSchedule& schedule = parts_.run.windows().schedule();
  const ResumePoint point = schedule.resume_point(scheduled_steps());
  if (!parts_.state.control.should_epoch_stop || point.update_step == 0) return;
  parts_.position.skipped_in_epochs += schedule.steps_in(point.epoch) - point.update_step;
  parts_.position.samples_consumed = schedule.samples_before(scheduled_steps());
}

void TrainingLoop::do_what_is_due(Progress& progress) {
  TrainerControl& control = parts_.state.control;
  const auto timed = [&](HostWork work, void (TrainingLoop::*act)(Progress&)) {
    const double begin = now_seconds();
    (this->*act)(progress);
    if (StepProfile* profile = parts_.run.profile(); profile != nullptr)
      profile->host_work(work, begin, now_seconds());
  };
  skip_rest_of_epoch();
  if (control.should_evaluate || control.should_save) end_steps_alone();
  if (control.should_log && parts_.state.global_step > parts_.position.last_logged_step)
    timed(HostWork::kLogging, &TrainingLoop::log_losses);
  if (control.should_evaluate) {
    parts_.position.due = control;  // of a checkpoint that a stop in the evaluation leaves
    timed(HostWork::kEvaluation, &TrainingLoop::evaluate);
    skip_rest_of_epoch();
  }
  parts_.position.due.reset();
  if (control.should_save) timed(HostWork::kCheckpoint, &TrainingLoop::save);
}

void TrainingLoop::log(Metrics entry, Progress& progress) {
  TrainerState& state = parts_.state;
  const Metrics& logged = parts_.reports.log(std::move(entry));
  progress.log_line(log_text(logged));
  state.control.should_log = false;
  parts_.callbacks.each(
      [&](TrainerCallback& callback) { callback.on_log(parts_.args, state, state.control, logged); });
}

void TrainingLoop::log_losses(Progress& progress) {
  share_losses();
  RunPosition& position = parts_.position;
  Metrics entry;
  entry["loss"] =
      position.loss_since_log / static_cast<double>(parts_.state.global_step - position.last_logged_step);
  if (parts_.run.session().family().grad_norm.valid())
    entry["grad_norm"] = static_cast<double>(last_grad_norm_);
  entry["learning_rate"] = last_learning_rate_;
  add_loss_scale(entry);
  position.loss_total += position.loss_since_log;
  position.loss_since_log = 0;
  position.last_logged_step = parts_.state.global_step;
  parts_.reports.end_throughput();
  log(std::move(entry), progress);
  if (position.nonfinite_losses == first_nonfinite_losses_ || is_nonfinite_said_) return;
  is_nonfinite_said_ = true;
  progress.log_line(
      "a loss was not finite: --detect_anomaly names the op that makes it; a lower --learning_rate may avoid it");
}

void TrainingLoop::add_loss_scale(Metrics& metrics) const {
  const LossScaleStorages& scale = parts_.run.session().family().loss_scale;
  if (!scale.scale.valid()) return;
  metrics["loss_scale"] = static_cast<double>(read_loss_scale(parts_.run.executor(), scale).scale);
  metrics["skipped_steps"] = parts_.position.skipped_steps;
}

Metrics TrainingLoop::log_evaluation(Progress& progress) {
  TrainerState& state = parts_.state;
  Metrics metrics = parts_.evaluate();
  log(metrics, progress);
  state.control.should_evaluate = false;
  parts_.callbacks.each(
      [&](TrainerCallback& callback) { callback.on_evaluate(parts_.args, state, state.control, metrics); });
  return metrics;
}

void TrainingLoop::evaluate(Progress& progress) {
  const TrainingArguments& args = parts_.args;
  TrainerState& state = parts_.state;
  const Metrics metrics = log_evaluation(progress);
  const bool best = update_best_metric(args, metrics, state);
  if (best && (state.control.should_save || args.save_strategy == "best")) {
    state.best_model_checkpoint =
        (std::filesystem::path(args.output_dir) / fmt::format("checkpoint-{}", state.global_step)).string();
  }
  if (args.save_strategy == "best") state.control.should_save = best;
  if (!parts_.learning_rate.follows_metric()) return;
  const double metric = best_model_metric(args, metrics);
  if (const auto line = parts_.learning_rate.follow_metric(metric, parts_.position)) progress.log_line(*line);
}

void TrainingLoop::save(Progress& progress) {
  TrainerState& state = parts_.state;
  const std::filesystem::path saved = parts_.save();
  if (parts_.ranks == nullptr || parts_.ranks->is_main()) {
    rotate_checkpoints(parts_.args.output_dir, parts_.args.save_total_limit.value_or(0),
                       state.best_model_checkpoint.value_or(""));
  }
  parts_.reports.write_page();
  progress.log_line(fmt::format("saved {}", saved.string()));
  state.control.should_save = false;
  parts_.callbacks.each(
      [&](TrainerCallback& callback) { callback.on_save(parts_.args, state, state.control); });
}

double TrainingLoop::data_wait_seconds() const {
  return window_wait_seconds_ + parts_.run.runner().data_wait_seconds();
}

}  // namespace shoehorn
