// The loop over steps, and what happens between them.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/window_iterator.h"
#include "graph/relative_step.h"
#include "io/checkpoint_directory.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "session/loss_scale_state.h"
#include "state/adapter_weights.h"
#include "state/weights.h"
#include "train/results.h"
#include "train/trainer.h"

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

// What an evaluation measured, beside its loss and its speed.
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

}  // namespace

TrainOutput Trainer::train() {
  if (windows_ == nullptr)
    throw user_error("[Trainer: train] expected training data, got none; give them to the constructor");
  if (args_.save_strategy != "no") {
    if (args_.lora_rank > 0 && options_.weights.empty()) {
      throw user_error(
          "[lora_rank] expected a base model with weights, or save_strategy no, got random weights; adapters "
          "are saved without the model that they go with");
    }
  }
  std::optional<DirectoryLock> lock;
  if (writes_output_dir()) {
    lock.emplace(args_.output_dir);
    if (!lock->is_enforced())
      say(fmt::format("{}: no locks on this file system; see to it that no other run writes there",
                      args_.output_dir));
    ensure_writable_directory(args_.output_dir);
  }
  recover_checkpoints(args_.output_dir);
  prepare();
  if (args_.overwrite_output_dir && args_.save_strategy != "no" && args_.resume_from_checkpoint.empty()) {
    for (const std::filesystem::path& removed : remove_checkpoints(args_.output_dir))
      say(fmt::format("removed {}", removed.string()));
  }
  start_reports();
  const double start = now_seconds();
  ProgressOptions watching = options_.progress;
  if (!args_.batch_size_ramp.empty()) {
    watching.work_of = [this](int64_t step) {
      return static_cast<double>(windows_->schedule().samples_before(step));
    };
  }
  Progress progress("train", state_.global_step, state_.max_steps, std::move(watching));
  // As in the Trainer, a model that has not been trained is never the best one.
  if (args_.eval_on_start && state_.global_step == 0) progress.log_line(log_text(note(evaluate())));
  try {
    train_epochs(progress);
  } catch (...) {
    try {
      write_report();  // as far as the run got
    } catch (const std::exception& error) {
      say(fmt::format("the report was not written: {}", error.what()));
    }
    throw;
  }
  progress.finish();
  if (args_.load_best_model_at_end) load_best_model();
  return finish_run(now_seconds() - start);
}

bool Trainer::writes_output_dir() const {
  return args_.save_strategy != "no" || !args_.report_to.empty() ||
         (profile_ != nullptr && options_.write_profile);
}

void Trainer::train_epochs(Progress& progress) {
  const TrainingSteps steps = this->steps();
  ResumePoint point = windows_->schedule().resume_point(state_.global_step);
  Window window;
  while (state_.global_step < state_.max_steps) {
    windows_->start_epoch(point.epoch, point.update_step);
    while (state_.global_step < state_.max_steps && next_window(window)) {
      if (seconds_to_first_step_ == 0) seconds_to_first_step_ = now_seconds() - constructed_seconds_;
      const double step_start = now_seconds();
      step(window);
      step_seconds_.push_back(now_seconds() - step_start);
      step_seconds_since_log_ += step_seconds_.back();
      samples_since_log_ += window.sequences;
      const int64_t done = window.first_micro_batch + window.micro_batches;
      state_.epoch = static_cast<double>(window.epoch) +
                     static_cast<double>(done) / static_cast<double>(steps.micro_batches_per_epoch);
      decide_after_step(args_, state_);
      after_step(progress);
      if (profile_ != nullptr) profile_->end_step();
      progress.update(state_.global_step, samples_this_run_,
                      session_->executor().read_scalar<float>(session_->family().loss));
    }
    point = {point.epoch + 1, 0};
    // Also where max_steps ends it early, as in the Trainer.
    decide_after_epoch(args_, state_);
    after_step(progress);
  }
}

// A schedule moves with the updates: where one is skipped, it stays.
double Trainer::next_learning_rate() const {
  const OptimizerSettings& optimizer = session_->options().step.optimizer.settings;
  if (const auto own = relative_step_of(optimizer, position_.applied_updates)) return *own;
  if (plateau_) return position_.plateau->learning_rate;
  return schedule_->learning_rate(position_.applied_updates);
}

// One optimizer step: all micro-batches of a window.
void Trainer::step(const Window& window) {
  last_learning_rate_ = next_learning_rate();
  runner_->begin({state_.global_step, position_.applied_updates, window.target_items});
  for (int64_t m = 0; m < window.micro_batches; ++m) runner_->run_micro_batch(*windows_, m);
  const StepResult result = runner_->finish(last_learning_rate_);
  if (!std::isfinite(result.loss)) ++position_.nonfinite_losses;
  position_.loss_since_log += result.loss;
  last_grad_norm_ = result.grad_norm;
  ++(result.is_skipped ? position_.skipped_steps : position_.applied_updates);
  ++state_.global_step;
  position_.samples_consumed += window.sequences;
  samples_this_run_ += window.sequences;
  if (args_.include_num_input_tokens_seen != "no") state_.num_input_tokens_seen += window.tokens;
  // As transformers counts it: six operations a token and weight that is no embedding.
  state_.total_flos += 6.0 * static_cast<double>(window.tokens) *
                       static_cast<double>(weights_beside_embeddings(session_->state()));
}

void Trainer::after_step(Progress& progress) {
  const auto timed = [&](HostWork work, void (Trainer::*act)(Progress&)) {
    const double begin = now_seconds();
    (this->*act)(progress);
    if (profile_ != nullptr) profile_->host_work(work, begin, now_seconds());
  };
  if (state_.control.should_log && state_.global_step > position_.last_logged_step)
    timed(HostWork::kLogging, &Trainer::log_losses);
  if (state_.control.should_evaluate) timed(HostWork::kEvaluation, &Trainer::evaluate_and_note);
  if (state_.control.should_save) timed(HostWork::kCheckpoint, &Trainer::save);
}

void Trainer::log_losses(Progress& progress) {
  Metrics entry;
  entry["loss"] =
      position_.loss_since_log / static_cast<double>(state_.global_step - position_.last_logged_step);
  if (session_->family().grad_norm.valid()) entry["grad_norm"] = static_cast<double>(last_grad_norm_);
  entry["learning_rate"] = last_learning_rate_;
  add_loss_scale(entry);
  position_.loss_total += position_.loss_since_log;
  position_.loss_since_log = 0;
  position_.last_logged_step = state_.global_step;
  note_throughput();
  progress.log_line(log_text(note(std::move(entry))));
}

void Trainer::add_loss_scale(Metrics& metrics) const {
  const LossScaleStorages& scale = session_->family().loss_scale;
  if (!scale.scale.valid()) return;
  metrics["loss_scale"] = static_cast<double>(read_loss_scale(session_->executor(), scale).scale);
  metrics["skipped_steps"] = position_.skipped_steps;
}

TrainOutput Trainer::finish_run(double seconds) {
  TrainOutput output;
  output.global_step = state_.global_step;
  output.training_loss = (position_.loss_total + position_.loss_since_log) /
                         static_cast<double>(std::max<int64_t>(1, state_.global_step));
  output.metrics = speed_metrics("train", seconds, samples_this_run_, state_.global_step - first_step_);
  output.metrics["train_loss"] = output.training_loss;
  output.metrics["total_flos"] = state_.total_flos;
  output.metrics["epoch"] = state_.epoch;
  if (position_.nonfinite_losses > 0) {
    output.metrics["nonfinite_losses"] = position_.nonfinite_losses;
    say(fmt::format(
        "{} of {} steps had a loss that is not finite; --detect_anomaly names the op that makes it",
        position_.nonfinite_losses, state_.global_step));
  }
  add_loss_scale(output.metrics);
  if (position_.skipped_steps > 0) {
    say(fmt::format("{} of {} steps were skipped: a gradient overflowed in fp16", position_.skipped_steps,
                    state_.global_step));
  }
  note(output.metrics);
  const double waited = window_wait_seconds_ + runner_->data_wait_seconds();
  output.metrics["train_data_wait_share"] = seconds > 0 ? waited / seconds : 0;
  output.metrics.merge(memory_metrics());
  end_metrics_ = output.metrics;
  write_report();
  if (profile_ != nullptr && options_.write_profile)
    profile_->write(std::filesystem::path(args_.output_dir) / "profile.json");
  return output;
}

void Trainer::evaluate_and_note(Progress& progress) {
  Metrics metrics = evaluate();
  const bool best = update_best_metric(args_, metrics, state_);
  if (best && (state_.control.should_save || args_.save_strategy == "best")) {
    state_.best_model_checkpoint =
        (std::filesystem::path(args_.output_dir) / fmt::format("checkpoint-{}", state_.global_step)).string();
  }
  if (args_.save_strategy == "best") state_.control.should_save = best;
  // The Trainer does not tell it of the evaluation before the first step.
  if (plateau_ && state_.global_step > 0) reduce_on_plateau(metrics, progress);
  progress.log_line(log_text(note(std::move(metrics))));
}

void Trainer::reduce_on_plateau(const Metrics& metrics, Progress& progress) {
  const double before = position_.plateau->learning_rate;
  position_.plateau = plateau_->next(*position_.plateau, best_model_metric(args_, metrics));
  const double after = position_.plateau->learning_rate;
  if (after < before)
    progress.log_line(fmt::format("{}: learning_rate {:.6g}, was {:.6g}", kReduceLrOnPlateau, after, before));
}

void Trainer::save(Progress& progress) {
  const std::filesystem::path saved = save_checkpoint(contents(), session_->executor());
  rotate_checkpoints(args_.output_dir, args_.save_total_limit.value_or(0),
                     state_.best_model_checkpoint.value_or(""));
  write_report();
  progress.log_line(fmt::format("saved {}", saved.string()));
}

void Trainer::load_best_model() {
  if (!state_.best_model_checkpoint) return;
  const std::string& best = *state_.best_model_checkpoint;
  // Hours of training are not lost for a checkpoint that somebody deleted.
  // Every byte is verified before the first of the last step's weights is overwritten.
  if (const std::string defect = checkpoint_defect(best, VerifiedFiles::kAll); !defect.empty()) {
    say(fmt::format("the weights are those of the last step: the best model, of {}, is not whole ({})", best,
                    defect));
    return;
  }
  if (session_->family().adapters.empty()) {
    start_weights(best, session_->state(), session_->executor(), args_.seed);
  } else {
    load_adapter(best, session_->family(), session_->executor());
  }
  say(fmt::format("loaded the best model, of {}", best));
}

}  // namespace shoehorn
