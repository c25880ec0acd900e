#include "train/trainer.h"

#include "arguments/step_settings.h"
#include "base/error.h"
#include "base/process.h"
#include "base/user_error_kinds.h"
#include "data/window_iterator.h"
#include "io/directory_lock.h"
#include "session/batching.h"
#include "session/loss_scale_state.h"
#include "session/memory_refusal.h"
#include "state/resume_changes.h"
#include "state/weights.h"
#include "train/auto_find_batch_size.h"
#include "train/results.h"
#include "train/starting_weights.h"

namespace shoehorn {

Trainer::Trainer(const Model& model, TrainingArguments args, Dataset train_dataset, Dataset eval_dataset,
                 TrainerOptions options)
    : model_(model),
      args_(resolved(std::move(args))),
      train_dataset_(std::move(train_dataset)),
      eval_dataset_(std::move(eval_dataset)),
      options_(std::move(options)),
      constructed_seconds_(now_seconds()) {
  if (options_.weights.empty()) options_.weights = model.weights_directory();
  validate(args_);
  check_data(model, train_dataset_, "training");
  check_data(model, eval_dataset_, "evaluation");
  if (padding_of(args_) > model.max_positions()) {
    throw user_error(
        "[max_seq_length] expected at most {} with pad_to_max_length, the model's positions, got {}",
        model.max_positions(), args_.max_seq_length);
  }
  if (train_dataset_.size() == 0 && eval_dataset_.size() == 0)
    throw user_error("[Trainer] expected samples to train on or to evaluate, got neither");
  if (args_.eval_strategy != "no" && eval_dataset_.size() == 0) {
    throw user_error("[--eval_strategy {}] expected an evaluation set, got none; give --validation_file",
                     args_.eval_strategy);
  }
  if (args_.eval_on_start && eval_dataset_.size() == 0)
    throw user_error("[--eval_on_start] expected an evaluation set, got none; give --validation_file");
  if (args_.auto_find_batch_size && train_dataset_.size() > 0)
    args_.per_device_train_batch_size = first_batch_size(args_);
  plan();
  while (may_shrink_batch() && !forecast_.fits()) {
    args_.per_device_train_batch_size = next_batch_size(args_.per_device_train_batch_size);
    plan();
  }
}

bool Trainer::may_shrink_batch() const {
  return args_.auto_find_batch_size && windows_ != nullptr && args_.per_device_train_batch_size > 1;
}

Trainer::~Trainer() = default;

void Trainer::plan() {
  runner_.reset();
  session_.reset();
  SessionOptions session;
  session.backend = options_.backend;
  session.step = step_options_of(args_);
  if (options_.optimizer) session.step.optimizer = *options_.optimizer;
  session.step.decay_of = decay_of_groups(options_.optimizer_groups);
  if (train_dataset_.size() > 0) {
    windows_ = make_windows(args_, train_dataset_);
    make_room_for(*windows_, args_, session);
  } else {
    session.kind = RunKind::kEvaluate;
  }
  if (eval_dataset_.size() > 0) {
    session.evaluation =
        batch_capacity_of(eval_dataset_, args_.per_device_eval_batch_size, padding_of(args_));
  }
  session_ = std::make_unique<Session>(model_, std::move(session));
  const ProgramFamily& family = session_->family();
  if (windows_ != nullptr) check_columns_are_read(train_dataset_, family.train_batches[0], "training");
  check_columns_are_read(eval_dataset_, family.evaluation_batch, "evaluation");
  if (windows_ != nullptr) {
    const TrainingSteps steps = this->steps();
    state_.max_steps = steps.max_steps;
    state_.num_train_epochs = steps.num_train_epochs;
    state_.train_batch_size = args_.per_device_train_batch_size;
    state_.compute_steps(args_, steps.max_steps);
    plateau_ = reduce_lr_on_plateau_of(args_);
    if (plateau_) {
      position_.plateau = plateau_->start();
    } else {
      schedule_ = schedule_of(args_, steps.max_steps);
    }
  }
  // Before the forecast, which counts its bytes.
  if (args_.profile > 0) profile_ = std::make_unique<StepProfile>(*session_, args_.profile);
  if (windows_ != nullptr) runner_.emplace(*session_, profile_.get());
  if (may_shrink_batch()) {
    forecast_ = forecast_least_memory(*session_, args_.memory_budget);
    if (!forecast_.fits()) return;
  }
  forecast_ = forecast_memory(*session_, args_.memory_budget);
}

Alternatives Trainer::alternatives() const {
  return find_alternatives(model_, session_->options(), forecast_,
                           {.micro_batch_size = args_.per_device_train_batch_size,
                            .keeps_optimizer = options_.optimizer.has_value(),
                            .has_optim_args = !args_.optim_args.empty(),
                            .keeps_state = !args_.resume_from_checkpoint.empty()});
}

TrainingSteps Trainer::steps() const {
  return steps_of(args_, train_dataset_.size());
}

void Trainer::say(const std::string& line) const {
  if (options_.on_line) options_.on_line(line);
}

void Trainer::prepare() {
  if (is_prepared_) return;
  if (!forecast_.fits()) throw DoesNotFit(format_refusal(forecast_, alternatives()));
  if (!session_->is_reserved()) reserve_run(*session_, windows_.get(), args_.detect_anomaly);
  load_start();
  is_prepared_ = true;
}

void Trainer::load_start() {
  const bool resumes = windows_ != nullptr && !args_.resume_from_checkpoint.empty();
  if (windows_ != nullptr && (resumes || args_.save_strategy != "no")) {
    const bool adapts = !session_->family().adapters.empty();
    identity_ = run_identity(train_dataset_, eval_dataset_, options_.companions,
                             adapts ? options_.weights : std::filesystem::path(), session_->state(),
                             session_->backend().machine());
  }
  if (resumes) {
    resume();
    return;
  }
  originals_ = start_run({.weights = options_.weights,
                          .adapter = options_.adapter,
                          .seed = args_.seed,
                          .on_line = options_.on_line},
                         *session_);
}

void Trainer::resume() {
  std::vector<std::string> notes;
  std::vector<std::string> change_lines;  // of the checkpoint that is loaded, not of damaged ones before it
  ResumeChanges changes;
  ResumedRun run;
  const std::filesystem::path checkpoint =
      resume_checkpoint(args_, notes, [&](const std::filesystem::path& from) {
        changes = compare_with_checkpoint(from, {args_, model_, identity_, windows_->schedule()});
        change_lines.clear();
        check_resume_changes(from, changes, args_.allow_resume_changes,
                             [&](const std::string& line) { change_lines.push_back(line); });
        run = load_checkpoint(from, args_, *session_, options_.weights);
      });
  for (const std::string& note : notes) say(note);
  for (const std::string& line : change_lines) say(line);
  if (run.originals) say_without_checksums(run.originals->files, options_.on_line);
  if (const std::string unused = format_unused(run.unused); !unused.empty()) say(unused);
  const int64_t max_steps = state_.max_steps;
  const int64_t epochs = state_.num_train_epochs;
  state_ = std::move(run.state);
  state_.max_steps = max_steps;
  state_.num_train_epochs = epochs;
  state_.train_batch_size = args_.per_device_train_batch_size;
  state_.compute_steps(args_, max_steps);
  state_.control = {};
  if (const std::optional<std::string> best = state_.best_model_checkpoint) {
    state_.best_model_checkpoint = find_best_model(checkpoint, *best);
    if (!state_.best_model_checkpoint)
      say(fmt::format("the best model so far is gone: {} is not there", *best));
  }
  position_ = run.position;
  // Of a changed run other samples than the interrupted one's count.
  position_.samples_consumed = windows_->schedule().samples_before(state_.global_step);
  if (changes.forgets_best) forget_best_model();
  originals_ = std::move(run.originals);
  first_step_ = state_.global_step;
  const LossScaleStorages& scale = session_->family().loss_scale;
  const bool is_dynamic = scale.applied_in_row.valid();  // a fixed one is what the arguments say
  if (run.loss_scale && is_dynamic) write_loss_scale(session_->executor(), scale, *run.loss_scale);
  say(fmt::format("resumed from {} at step {}", checkpoint.string(), state_.global_step));
}

// Its metric was another, or of other data: what comes cannot be compared with it.
void Trainer::forget_best_model() {
  if (plateau_) position_.plateau->best = plateau_->start().best;
  if (!state_.best_metric) return;
  say(fmt::format("the best model so far does not count: its metric, {}, is of another kind or other data",
                  *state_.best_metric));
  state_.best_metric.reset();
  state_.best_global_step.reset();
  state_.best_model_checkpoint.reset();
}

void Trainer::require_evaluation_data(const char* call) const {
  if (eval_dataset_.size() > 0) return;
  throw user_error("[Trainer: {}] expected evaluation data, got none; give them to the constructor", call);
}

Metrics Trainer::evaluate() {
  require_evaluation_data("evaluate");
  prepare();
  EvaluationOptions how{.batch_size = args_.per_device_eval_batch_size,
                        .pad_to_max_length = padding_of(args_)};
  if (windows_ == nullptr && profile_ != nullptr) {
    record_nodes();
    how.profile = profile_.get();
  }
  const EvaluationResult result = shoehorn::evaluate(*session_, eval_dataset_, model_.task(), how);
  Metrics metrics = evaluation_metrics(result, args_.prediction_loss_only);
  if (options_.compute_metrics) {
    for (const auto& [name, value] : options_.compute_metrics(*result.score)) metrics["eval_" + name] = value;
  }
  return metrics;
}

void Trainer::predict(const std::function<void(std::span<const float> outputs)>& on_outputs) {
  require_evaluation_data("predict");
  prepare();
  shoehorn::evaluate(*session_, eval_dataset_, model_.task(),
                     {.batch_size = args_.per_device_eval_batch_size,
                      .pad_to_max_length = padding_of(args_),
                      .on_outputs = on_outputs});
}

CheckpointContents Trainer::contents() const {
  return {model_,
          *session_,
          args_,
          state_,
          position_,
          options_.companions,
          originals_ ? &*originals_ : nullptr,
          &identity_};
}

void Trainer::save_model(const std::filesystem::path& directory) {
  prepare();
  save_model_directory(contents(), session_->executor(), directory, args_.lora_merge);
}

void Trainer::save_state() const {
  const DirectoryLock lock(args_.output_dir);
  save_trainer_state(state_, std::filesystem::path(args_.output_dir) / "trainer_state.json");
}

int64_t Trainer::measured_process_peak_bytes() const {
  return process_peak_bytes();
}

Metrics Trainer::memory_metrics() const {
  return {{"memory_arena_predicted_bytes", forecast_.arena_bytes()},
          {"memory_arena_measured_bytes", session_->executor().resident_arena_bytes()},
          {"memory_process_predicted_bytes", forecast_.process_peak_bytes()},
          {"memory_process_measured_bytes", measured_process_peak_bytes()}};
}

void print_summary(const TrainOutput& output, std::ostream& out) {
  out << format_summary(output.metrics, process_resident_bytes()) << std::flush;
}

}  // namespace shoehorn
