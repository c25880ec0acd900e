#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>
#include <utility>

#include "arguments/neighbour_configs.h"
#include "arguments/step_settings.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/process.h"
#include "base/stop_request.h"
#include "data/mixture.h"
#include "exec/backend/thread_count.h"
#include "fit/batch_size_search.h"
#include "fit/gather_choice.h"
#include "io/checkpoint_directory.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/file_content.h"
#include "io/manifest.h"
#include "ranks/agreement.h"
#include "session/batching.h"
#include "session/loss_scale_state.h"
#include "state/adapter_weights.h"
#include "state/resume_changes.h"
#include "state/starting_weights.h"
#include "state/weights.h"
#include "train/auto_find_batch_size.h"
#include "train/load_notice.h"
#include "train/rank_facts.h"
#include "train/rank_waits.h"
#include "train/results.h"
#include "train/start_checks.h"
#include "train/transfer_progress.h"
#include "train/work_progress.h"

namespace shoehorn {

namespace {

// Of what is saved, or states of their own, so that all of them take part.
bool ranks_have_parts(const Session& session) {
  return !session.family().shards.empty() || session.options().step.ranks.local_steps() > 0;
}

// The text of the first rank that has one, with the rank's name where the ranks' texts differ.
std::string first_text_of_ranks(Communicator& ranks, const std::string& own) {
  constexpr size_t kLongest = 1024;
  const std::vector<std::string> texts = gather_texts(ranks, own, kLongest);
  const auto first = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  if (first == texts.end()) return {};
  if (std::ranges::all_of(texts, [&](const std::string& text) { return text == *first; })) return *first;
  return fmt::format("{}: {}", ranks.name_of(static_cast<int32_t>(first - texts.begin())), *first);
}

constexpr const char* kNoBestModel = "there is no checkpoint of the best model";

// Why the checkpoint is not loaded; empty if it is whole. Every byte is verified before the first of the last step's weights is
// overwritten.
std::string defect_of_best_model(const std::optional<std::string>& checkpoint) {
  if (!checkpoint) return kNoBestModel;
  const std::string defect = checkpoint_defect(*checkpoint, VerifiedFiles::kAll);
  return defect.empty() ? "" : fmt::format("the best model, of {}, is not whole ({})", *checkpoint, defect);
}

}  // namespace

Trainer::Trainer(const Model& model, TrainingArguments args, Dataset train_dataset, Dataset eval_dataset,
                 TrainerOptions options)
    : model_(model),
      args_(resolved(with_neighbour_configs(std::move(args)))),
      train_dataset_(std::move(train_dataset)),
      eval_dataset_(std::move(eval_dataset)),
      options_(std::move(options)),
      constructed_seconds_(now_seconds()) {
  if (options_.weights.empty()) options_.weights = model.weights_directory();
  if (options_.ranks) args_.world_size = options_.ranks->size();
  validate(args_);
  if (!is_main_rank()) {  // the first rank shows and writes
    options_.on_line = {};
    options_.progress = {};
    args_.report_to.clear();
    args_.dump_program.clear();
  }
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
  if (train_dataset_.size() > 0 && !options_.compute_metrics) {
    args_.metric_for_best_model = common_metric_name(args_.metric_for_best_model);
    check_metric_for_best_model(args_, model.task(), eval_dataset_);
  }
  add_early_stopping();
  for (std::shared_ptr<TrainerCallback>& callback : options_.callbacks) add_callback(std::move(callback));
  if (args_.auto_find_batch_size && train_dataset_.size() > 0)
    set_micro_batch_size(args_, first_batch_size(args_));
  // The batch, too, which each rank of a resumed run has read.
  if (options_.ranks) check_arguments_alike(*options_.ranks, args_);
  plan();
  while (may_shrink_batch() && !fits_on_all_ranks()) {
    if (options_.ranks) agree_on_stop(*options_.ranks);  // else the search heeds stops
    set_micro_batch_size(args_, find_batch_size());
    plan();
  }
  choose_gathering_of_ranks();
  add_load_notice();
}

// Each rank has the memory of its own host, and all have one batch.
bool Trainer::fits_on_all_ranks() const {
  if (!options_.ranks) return forecast().fits();
  const std::vector<bool> fits = gather_values(*options_.ranks, forecast().fits());
  return std::ranges::all_of(fits, [](bool one) { return one; });
}

// The size that the search has for the rank with the least memory.
int64_t Trainer::find_batch_size() {
  int64_t size = args_.per_device_train_batch_size;
  if (!forecast().fits()) {
    const SessionOfArguments options_of = run_->session_of_arguments();
    const BatchSizeMemory memory = {.budget_bytes = forecast().budget_bytes,
                                    .caller_bytes = options_.caller_bytes};
    run_.reset();
    size = find_smaller_batch_size(model_, options_of, args_, memory);
  }
  return options_.ranks ? std::ranges::min(gather_values(*options_.ranks, size)) : size;
}

// Ranks run one program: what does not fit one of them fits none, and the first one's prediction counts.
void Trainer::choose_gathering_of_ranks() {
  if (!has_open_gathering(args_) || !run_->trains()) return;
  const OpenGathering open = {.prefetch_layers = !args_.zero_prefetch_layers,
                              .persistence_threshold = !args_.zero_persistence_threshold};
  const auto plan_for = [&](const Gathering& gathering) {
    const bool is_planned = gathering == gathering_of(args_);
    args_.zero_prefetch_layers = gathering.prefetch_layers;
    args_.zero_persistence_threshold = gathering.persistence_threshold;
    if (!is_planned) plan();
  };
  plan_for(choose_gathering(gathering_of(args_), open, [&](const Gathering& gathering) {
    plan_for(gathering);
    return GatheringPlan{.fits = fits_on_all_ranks(), .step_seconds = predicted_step_seconds()};
  }));
}

// By the first rank; nothing where nobody knows.
std::optional<double> Trainer::predicted_step_seconds() const {
  double seconds = 0;
  if (options_.step_seconds && is_main_rank()) seconds = options_.step_seconds(session()).value_or(0);
  if (options_.ranks) seconds = gather_values(*options_.ranks, seconds)[0];
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

bool Trainer::may_shrink_batch() const {
  return args_.auto_find_batch_size && train_dataset_.size() > 0 && args_.per_device_train_batch_size > 1;
}

Trainer::~Trainer() = default;

bool Trainer::is_main_rank() const {
  return !options_.ranks || options_.ranks->is_main();
}

// For work of the first rank, on files that the others read.
void Trainer::wait_for_ranks() const {
  if (options_.ranks) wait_for_all(*options_.ranks);
}

// Samples in files are read for their hash. Ranks stop together, and not here; nor does a run whose hash is made.
ByteProgress Trainer::hash_progress() const {
  return [this, bars = WorkProgress(options_.progress)](int64_t done, int64_t bytes) {
    if (!options_.ranks && done < bytes) throw_if_stop_requested();
    bars.show("hash samples", ProgressUnit::kBytes, done, bytes);
  };
}

// Before anything is exchanged that only ranks of one program understand.
void Trainer::check_ranks() const {
  if (!options_.ranks) {
    if (args_.world_size == 1) return;
    throw user_error(
        "[--world_size {0}] expected as many ranks, got one; start them with `shoehorn launch --nproc_per_node {0} train "
        "…`",
        args_.world_size);
  }
  std::vector<SharedFact> facts = {
      {"the training data", train_dataset_.content_hash(hash_progress())},
      {"the validation data",
       eval_dataset_.size() > 0 ? eval_dataset_.content_hash(hash_progress()) : std::string()}};
  const bool resumes = !args_.resume_from_checkpoint.empty();
  for (SharedFact& fact : facts_of_model(session(), resumes ? std::filesystem::path() : options_.weights,
                                         resumes ? std::filesystem::path() : options_.adapter))
    facts.push_back(std::move(fact));
  check_alike(*options_.ranks, facts);
}

// What was loaded may be another checkpoint on each host.
void Trainer::check_resumed(const std::filesystem::path& checkpoint) const {
  if (!options_.ranks) return;
  const std::filesystem::path manifest = checkpoint / kManifestName;
  const std::filesystem::path state = checkpoint / "trainer_state.json";
  check_alike(*options_.ranks,
              {{"the step of the checkpoint", std::to_string(state_.global_step)},
               {"the checkpoint", content_of_file(std::filesystem::exists(manifest) ? manifest : state)}});
}

void Trainer::add_early_stopping() {
  if (!args_.early_stopping_patience) return;
  early_stopping_ = std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.patience = *args_.early_stopping_patience,
                           .threshold = args_.early_stopping_threshold,
                           .on_line = [this](const std::string& line) { log_line(line); }});
  add_callback(early_stopping_);
}

void Trainer::add_load_notice() {
  if (!run_->trains() || !options_.on_line) return;
  add_callback(std::make_shared<LoadNotice>(
      LoadNoticeOptions{.threads = session().backend().machine().threads,
                        .local_ranks = options_.ranks ? options_.ranks->local_size() : 1,
                        .processors = thread_count().processors.machine,
                        .steps_are_alike = args_.batch_size_ramp.empty(),
                        .on_line = [this](const std::string& line) { log_line(line); }}));
}

// Calls call(callback, arguments, state, control) for each callback.
template <typename Call>
void Trainer::tell(const Call& call) {
  callbacks_.each([&](TrainerCallback& callback) { call(callback, args_, state_, state_.control); });
}

void Trainer::plan() {
  run_.reset();  // before the next plan: its memory must not count
  run_ = std::make_unique<PlannedRun>(model_, args_,
                                      RunData{.train = &train_dataset_, .evaluation = &eval_dataset_},
                                      PlannedRunOptions{.optimizer = options_.optimizer,
                                                        .optimizer_groups = options_.optimizer_groups,
                                                        .backend = options_.backend,
                                                        .ranks = options_.ranks,
                                                        .profile_steps = args_.profile,
                                                        .caller_bytes = options_.caller_bytes,
                                                        .has_smaller_plan = may_shrink_batch()});
  if (!run_->trains()) return;
  const TrainingSteps steps = this->steps();
  state_.max_steps = steps.max_steps;
  state_.num_train_epochs = steps.num_train_epochs;
  state_.train_batch_size = args_.per_device_train_batch_size;
  state_.compute_steps(args_, steps.max_steps);
  learning_rate_.emplace(args_, session().options().step.optimizer.settings, steps.max_steps);
  position_.plateau = learning_rate_->start();
}

Alternatives Trainer::alternatives() const {
  return run_->alternatives();
}

TrainingSteps Trainer::steps() const {
  return steps_of(args_, train_dataset_.epoch_size());
}

void Trainer::say(const std::string& line) const {
  if (options_.on_line) options_.on_line(line);
}

// Above the bar of the training that runs.
void Trainer::log_line(const std::string& line) const {
  if (progress_ != nullptr) {
    progress_->log_line(line);
  } else {
    say(line);
  }
}

void Trainer::prepare() {
  if (is_prepared_) return;
  run_->reserve();
  load_start();
  session().after_load();
  is_prepared_ = true;
}

void Trainer::load_start() {
  for (const std::string& notice : model_.notices()) say(notice);
  const bool resumes = run_->trains() && !args_.resume_from_checkpoint.empty();
  if (run_->trains() && (resumes || saves_checkpoints())) {
    const bool adapts = !session().family().adapters.empty();
    identity_ = run_identity(train_dataset_, eval_dataset_, options_.companions,
                             adapts ? options_.weights : std::filesystem::path(), session().state(),
                             session().backend().machine(), hash_progress());
  }
  if (resumes) {
    resume();
    return;
  }
  std::vector<std::string> notices;
  {
    const TransferProgress progress("load weights", session(), {}, options_.progress);
    originals_ = start_run({.weights = options_.weights,
                            .adapter = options_.adapter,
                            .seed = args_.seed,
                            .ignore_mismatched_sizes = args_.ignore_mismatched_sizes,
                            .on_line = [&](const std::string& line) { notices.push_back(line); }},
                           session());
  }
  for (const std::string& notice : notices) say(notice);
}

void Trainer::resume() {
  std::vector<std::string> notes;
  std::vector<std::string> change_lines;  // of the checkpoint that is loaded, not of damaged ones before it
  ResumeChanges changes;
  ResumedRun run;
  const std::filesystem::path checkpoint =
      resume_checkpoint(args_, notes, [&](const std::filesystem::path& from) {
        changes = compare_with_checkpoint(from, {args_, model_, identity_, run_->windows().schedule()});
        change_lines.clear();
        check_resume_changes(from, changes, args_.allow_resume_changes,
                             [&](const std::string& line) { change_lines.push_back(line); });
        const TransferProgress progress("load checkpoint", session(), {.optimizer_states = true},
                                        options_.progress);
        run = load_checkpoint(from, args_, session(), options_.weights);
      });
  for (const std::string& note : notes) say(note);
  for (const std::string& line : change_lines) say(line);
  say_without_checksums(checkpoint, options_.on_line);
  // Those of a model whose adapters alone are in the checkpoint.
  if (run.originals && run.originals->files.path() != checkpoint)
    say_without_checksums(run.originals->files, options_.on_line);
  if (const std::string unused = format_unused(run.unused); !unused.empty()) say(unused);
  const int64_t max_steps = state_.max_steps;
  const int64_t epochs = state_.num_train_epochs;
  state_ = std::move(run.state);
  state_.max_steps = max_steps;
  state_.num_train_epochs = epochs;
  state_.train_batch_size = args_.per_device_train_batch_size;
  state_.compute_steps(args_, max_steps);
  state_.control = {};
  if (!changes.forgets_best)
    callbacks_.restore_states(state_, (checkpoint / "trainer_state.json").string() + ": stateful_callbacks");
  if (const std::optional<std::string> best = state_.best_model_checkpoint) {
    state_.best_model_checkpoint = find_best_model(checkpoint, *best);
    if (!state_.best_model_checkpoint)
      say(fmt::format("the best model so far is gone: {} is not there", *best));
  }
  position_ = run.position;
  // Of a changed run other samples than the interrupted one's count.
  position_.samples_consumed =
      run_->windows().schedule().samples_before(state_.global_step + position_.skipped_in_epochs);
  if (changes.forgets_best) forget_best_model();
  originals_ = std::move(run.originals);
  const LossScaleStorages& scale = session().family().loss_scale;
  const bool is_dynamic = scale.applied_in_row.valid();  // a fixed one is what the arguments say
  if (run.loss_scale && is_dynamic) write_loss_scale(session().executor(), scale, *run.loss_scale);
  std::error_code absent;
  if (std::filesystem::equivalent(parent_directory((checkpoint / "").parent_path()), args_.output_dir,
                                  absent))
    saved_ = Saved{checkpoint, state_.global_step, state_.log_history.size(), position_.is_epoch_ended};
  check_resumed(checkpoint);
  say(fmt::format("resumed from {} at step {}{}", checkpoint.string(), state_.global_step,
                  state_.global_step < state_.max_steps ? ""
                                                        : ", the last one: nothing is left to train, unless "
                                                          "--num_train_epochs or --max_steps asks for more"));
}

// Its metric was another, or of other data: what comes cannot be compared with it.
void Trainer::forget_best_model() {
  if (const std::optional<PlateauState> start = learning_rate_->start())
    position_.plateau->best = start->best;
  if (!state_.best_metric) return;
  say(fmt::format("the best model so far does not count: its metric, {}, is of another kind or other data",
                  *state_.best_metric));
  state_.best_metric.reset();
  state_.best_global_step.reset();
  state_.best_model_checkpoint.reset();
}

TrainOutput Trainer::train() {
  if (!run_->trains())
    throw user_error("[Trainer: train] expected training data, got none; give them to the constructor");
  if (saves_checkpoints() && args_.lora_rank > 0 && options_.weights.empty()) {
    throw user_error(
        "[lora_rank] expected a base model with weights, or save_strategy no, got random weights; adapters "
        "are saved without the model that they go with");
  }
  std::optional<StopSignals> signals;
  if (args_.enable_jit_checkpoint.value_or(false)) signals.emplace();
  std::optional<DirectoryLock> lock;
  if (writes_output_dir()) {
    lock.emplace(args_.output_dir);
    if (!lock->is_enforced())
      say(fmt::format("{}: no locks on this file system; see to it that no other run writes there",
                      args_.output_dir));
    ensure_writable_directory(args_.output_dir);
  }
  check_ranks();
  if (options_.ranks && all_use_output_dir()) check_directory_is_shared(args_.output_dir, *options_.ranks);
  if (is_main_rank()) recover_checkpoints(args_.output_dir);
  wait_for_ranks();
  prepare();
  if (writes_output_dir()) check_start();
  if (is_main_rank() && args_.overwrite_output_dir && args_.resume_from_checkpoint.empty()) {
    for (const std::filesystem::path& removed : remove_checkpoints(args_.output_dir))
      say(fmt::format("removed {}", removed.string()));
  }
  reports_.emplace(args_, *run_, state_, evaluation_details_);
  reports_->open(model_.config_json());
  if (reports_to(args_, "html")) {
    say(fmt::format("{}: the page of this run, which a browser shows as it grows",
                    (std::filesystem::path(args_.output_dir) / "report.html").string()));
  }
  TrainingLoop loop({.args = args_,
                     .run = *run_,
                     .learning_rate = *learning_rate_,
                     .state = state_,
                     .position = position_,
                     .reports = *reports_,
                     .callbacks = callbacks_,
                     .evaluate =
                         [this] {
                           require_evaluation_data("train");  // a callback may ask for an evaluation
                           return measure({});
                         },
                     .save = [this] { return save_checkpoint(); },
                     .on_first_step =
                         [this] {
                           if (seconds_to_first_step_ == 0)
                             seconds_to_first_step_ = now_seconds() - constructed_seconds_;
                         },
                     .ranks = options_.ranks.get()});
  const double start = now_seconds();
  if (options_.ranks) waited_before_ = options_.ranks->waited_seconds();
  ProgressOptions watching = options_.progress;
  if (!args_.batch_size_ramp.empty()) {
    watching.work_of = [this](int64_t step) {
      return static_cast<double>(run_->windows().schedule().samples_before(step));
    };
  }
  Progress progress("train", state_.global_step, state_.max_steps, std::move(watching));
  int stopped_by = 0;
  progress_ = &progress;
  try {
    state_.control.should_training_stop = false;
    tell([](TrainerCallback& callback, auto&... event) { callback.on_train_begin(event...); });
    if (args_.eval_on_start && state_.global_step == 0) loop.evaluate_untrained(progress);
    loop.run(progress);
  } catch (const Stopped& stop) {
    stopped_by = stop.signal();
  } catch (...) {
    progress_ = nullptr;
    try {
      reports_->end_page(RunStatus::kFailed, {});
    } catch (const std::exception& error) {
      say(fmt::format("the report was not written: {}", error.what()));
    }
    throw;
  }
  progress_ = nullptr;
  if (stopped_by != 0) {
    progress.abandon();
  } else {
    progress.finish();
  }
  const double seconds = now_seconds() - start;
  std::filesystem::path checkpoint;
  if (stopped_by != 0) checkpoint = save_stopped();  // before all else: who sent the signal may not wait
  TrainOutput output = output_of(loop, seconds);
  output.stop_signal = stopped_by;
  output.checkpoint = std::move(checkpoint);
  if (stopped_by == 0 && args_.load_best_model_at_end) load_best_model();
  finish_training(output, loop, seconds);
  tell([](TrainerCallback& callback, auto&... event) { callback.on_train_end(event...); });
  return output;
}

bool Trainer::saves_when_stopped() const {
  return args_.enable_jit_checkpoint.value_or(args_.save_strategy != "no");
}

bool Trainer::saves_checkpoints() const {
  return args_.save_strategy != "no" || saves_when_stopped();
}

bool Trainer::writes_output_dir() const {
  return is_main_rank() && (saves_checkpoints() || options_.saves_model || !args_.report_to.empty() ||
                            (run_->profile() != nullptr && options_.write_profile));
}

// Whether other ranks than the first write their parts of checkpoints or of the model there, or read the best one.
bool Trainer::all_use_output_dir() const {
  const ProgramFamily& family = session().family();
  const bool saves_parts_of_model = options_.saves_model && !family.shards.empty() && family.adapters.empty();
  return (saves_checkpoints() && ranks_have_parts(session())) || saves_parts_of_model ||
         args_.load_best_model_at_end;
}

void Trainer::check_start() const {
  std::vector<std::string> names;
  if (reports_to(args_, "html")) names.emplace_back("report.html");
  if (run_->profile() != nullptr && options_.write_profile) names.emplace_back("profile.json");
  check_files_can_be_written(args_.output_dir, names);
  int64_t free_bytes = free_disk_bytes(args_.output_dir);
  if (args_.overwrite_output_dir && args_.resume_from_checkpoint.empty()) {
    for (const std::filesystem::path& checkpoint : list_checkpoints(args_.output_dir))
      free_bytes += bytes_in(checkpoint);  // they are removed before the first step
  }
  check_disk_space(disk_need_of(args_, session(), state_, options_.saves_model), args_.output_dir, free_bytes,
                   [this](const std::string& line) { say(line); });
}

std::filesystem::path Trainer::save_checkpoint() {
  callbacks_.keep_states(state_);
  if (!is_main_rank() && !ranks_have_parts(session())) {
    const std::string name = fmt::format("checkpoint-{}", state_.global_step);
    saved_ = Saved{std::filesystem::path(args_.output_dir) / name, state_.global_step,
                   state_.log_history.size(), position_.is_epoch_ended};
    return saved_->checkpoint;
  }
  const TransferContents contents_saved = {.adapters_alone = !session().family().adapters.empty(),
                                           .optimizer_states = !args_.save_only_model};
  const TransferProgress progress("save checkpoint", session(), contents_saved, options_.progress);
  std::filesystem::path checkpoint = shoehorn::save_checkpoint(contents(), session().executor());
  saved_ = Saved{checkpoint, state_.global_step, state_.log_history.size(), position_.is_epoch_ended};
  return checkpoint;
}

// The checkpoint of a stopped run, unless there is one of this state or no step to save; its path, or none.
std::filesystem::path Trainer::save_stopped() {
  if (StepProfile* profile = run_->profile(); profile != nullptr) profile->end_step();
  const bool is_saved = saved_ && saved_->step == state_.global_step &&
                        saved_->log_entries == state_.log_history.size() &&
                        saved_->is_epoch_ended == position_.is_epoch_ended;
  if (is_saved) return saved_->checkpoint;
  if (!saves_when_stopped() || state_.global_step == 0) return {};
  std::filesystem::path checkpoint = save_checkpoint();
  if (!is_main_rank()) return checkpoint;
  rotate_checkpoints(args_.output_dir, args_.save_total_limit.value_or(0),
                     state_.best_model_checkpoint.value_or(""));
  return checkpoint;
}

TrainOutput Trainer::output_of(const TrainingLoop& loop, double seconds) {
  step_seconds_ = loop.step_seconds();
  step_sizes_ = loop.step_sizes();
  TrainOutput output;
  output.global_step = state_.global_step;
  output.training_loss = (position_.loss_total + position_.loss_since_log) /
                         static_cast<double>(std::max<int64_t>(1, state_.global_step));
  output.metrics = speed_metrics("train", seconds, loop.samples(), loop.steps());
  output.metrics["train_loss"] = output.training_loss;
  output.metrics["total_flos"] = state_.total_flos;
  output.metrics["epoch"] = state_.epoch;
  if (position_.nonfinite_losses > 0) output.metrics["nonfinite_losses"] = position_.nonfinite_losses;
  loop.add_loss_scale(output.metrics);
  return output;
}

// What each set of a mixture really had of the samples so far.
void Trainer::report_shares(Metrics& metrics) const {
  const Mixture* mixture = train_dataset_.source().mixture();
  if (mixture == nullptr || position_.samples_consumed == 0) return;
  const int64_t an_epoch =
      std::min(mixture->epoch_size(),
               run_->windows().schedule().micro_batches_per_epoch() * args_.per_device_train_batch_size);
  const std::vector<int64_t> draws = mixture_draws(*mixture, position_.samples_consumed, an_epoch);
  std::vector<std::string> shares;
  for (int64_t set = 0; set < mixture->sets(); ++set) {
    const int64_t samples = draws[static_cast<size_t>(set)];
    const double share = static_cast<double>(samples) / static_cast<double>(position_.samples_consumed);
    const std::string& name = mixture->set(set).name;
    metrics["train_share_" + name] = share;
    shares.push_back(fmt::format("{} {:.2f}% ({})", name, 100 * share, format_count(samples)));
  }
  say(fmt::format("of {} samples: {}", format_count(position_.samples_consumed), fmt::join(shares, ", ")));
}

// How long ranks waited for each other since training began, and of a profile what of the messages was hidden.
void Trainer::report_waits(Metrics& metrics, double seconds) const {
  Communicator& ranks = *options_.ranks;
  const std::vector<double> waited = gather_values(ranks, ranks.waited_seconds() - waited_before_);
  const Straggler straggler = straggler_of(waited);
  metrics["train_rank_wait_share"] = seconds > 0 ? waited.at(static_cast<size_t>(ranks.rank())) / seconds : 0;
  metrics["train_slowest_rank"] = int64_t{straggler.rank};
  metrics["train_slowest_rank_cost_share"] = seconds > 0 ? straggler.seconds / seconds : 0;
  if (const std::string line = format_straggler(ranks, straggler, seconds); !line.empty()) say(line);
  if (run_->profile() != nullptr)
    add_overlap_metrics(metrics,
                        overlap_of_slowest(gather_values(ranks, run_->profile()->message_overlap())));
}

// The results and the reports. Those of a stopped run are no entry of its log, which goes on when it is resumed.
void Trainer::finish_training(TrainOutput& output, const TrainingLoop& loop, double seconds) {
  if (position_.nonfinite_losses > 0) {
    say(fmt::format("{} of {} had a loss that is not finite; --detect_anomaly names the op that makes it",
                    position_.nonfinite_losses, plural(state_.global_step, "step")));
  }
  if (position_.skipped_steps > 0) {
    say(fmt::format("{} of {} {} skipped: a gradient overflowed in fp16", position_.skipped_steps,
                    plural(state_.global_step, "step"), position_.skipped_steps == 1 ? "was" : "were"));
  }
  if (output.stop_signal == 0) {
    const Metrics& logged = reports_->log(output.metrics);
    tell([&](TrainerCallback& callback, auto&... event) { callback.on_log(event..., logged); });
  }
  report_shares(output.metrics);
  output.metrics["train_data_wait_share"] = seconds > 0 ? loop.data_wait_seconds() / seconds : 0;
  output.metrics.merge(memory_metrics());
  if (options_.ranks) {
    output.metrics[kSentBytesMetric] = session().sent_bytes_in_step(options_.ranks->rank());
    if (output.stop_signal == 0) report_waits(output.metrics, seconds);
  }
  reports_->end_page(output.stop_signal == 0 ? RunStatus::kEnded : RunStatus::kStopped, output.metrics,
                     early_stopping_ ? early_stopping_->reason() : "");
  if (run_->profile() != nullptr && options_.write_profile && is_main_rank())
    run_->profile()->write(std::filesystem::path(args_.output_dir) / "profile.json");
}

// All ranks do or none: they would go on with other weights, or wait for each other.
void Trainer::load_best_model() {
  wait_for_ranks();
  std::string defect = defect_of_best_model(state_.best_model_checkpoint);
  if (options_.ranks) defect = first_text_of_ranks(*options_.ranks, defect);
  if (defect == kNoBestModel) return;
  // Hours of training are not lost for a checkpoint that somebody deleted.
  if (!defect.empty()) {
    say("the weights are those of the last step: " + defect);
    return;
  }
  const std::string& best = *state_.best_model_checkpoint;
  {
    const bool is_adapter = !session().family().adapters.empty();
    const TransferProgress progress("load best model", session(), {.adapters_alone = is_adapter},
                                    options_.progress);
    if (is_adapter) {
      load_adapter(best, session().family(), session().executor());
    } else {
      start_weights(best, session().state(), session().executor(), args_.seed);
    }
    session().after_load();
  }
  say(fmt::format("loaded the best model, of {}", best));
}

void Trainer::require_evaluation_data(const char* call) const {
  if (eval_dataset_.size() > 0) return;
  throw user_error("[Trainer: {}] expected evaluation data, got none; give them to the constructor", call);
}

Metrics Trainer::evaluate() {
  require_evaluation_data("evaluate");
  if (!is_prepared_) check_ranks();
  prepare();
  EvaluationOptions how;
  if (!run_->trains()) how.profile = run_->profile();
  Metrics metrics = measure(how);
  tell([&](TrainerCallback& callback, auto&... event) { callback.on_evaluate(event..., metrics); });
  return metrics;
}

// `options` as given, but for what the arguments say.
Metrics Trainer::measure(const EvaluationOptions& options) {
  EvaluationOptions how = options;
  how.batch_size = args_.per_device_eval_batch_size;
  how.pad_to_max_length = padding_of(args_);
  how.ranks = options_.ranks.get();
  Progress progress("evaluate", 0, eval_dataset_.size(), beside_main_work(options_.progress));
  how.on_progress = [&](int64_t samples) {
    tell([](TrainerCallback& callback, auto&... event) { callback.on_prediction_step(event...); });
    progress.update(samples, samples);
  };
  const Task& task = model_.task();
  const EvaluationResult result = shoehorn::evaluate(session(), eval_dataset_, task, how);
  Metrics metrics = evaluation_metrics(result, args_.prediction_loss_only);
  if (options_.compute_metrics) {
    for (const auto& [name, value] : options_.compute_metrics(*result.score)) metrics["eval_" + name] = value;
  }
  evaluation_details_ = args_.prediction_loss_only || result.score->total() == 0
                            ? ScoreDetails()
                            : result.score->details(task.label_map().names);
  // One of the details, if it decides what is best.
  if (const std::string best = full_metric_name(args_.metric_for_best_model);
      run_->trains() && !metrics.contains(best)) {
    for (const auto& [name, value] : evaluation_details_.metrics()) {
      if ("eval_" + name == best) metrics[best] = value;
    }
  }
  return metrics;
}

void Trainer::predict(const std::function<void(std::span<const float> outputs)>& on_outputs) {
  require_evaluation_data("predict");
  if (!is_prepared_) check_ranks();
  prepare();
  Progress progress("predict", 0, eval_dataset_.size(), beside_main_work(options_.progress));
  shoehorn::evaluate(
      session(), eval_dataset_, model_.task(),
      {.batch_size = args_.per_device_eval_batch_size,
       .pad_to_max_length = padding_of(args_),
       .on_outputs = on_outputs,
       .on_progress =
           [&](int64_t samples) {
             tell([](TrainerCallback& callback, auto&... event) { callback.on_prediction_step(event...); });
             progress.update(samples, samples);
           },
       .ranks = options_.ranks.get()});
  tell([](TrainerCallback& callback, auto&... event) { callback.on_predict(event...); });
}

CheckpointContents Trainer::contents() const {
  return {model_,
          session(),
          args_,
          state_,
          position_,
          options_.companions,
          originals_ ? &*originals_ : nullptr,
          &identity_,
          ranks_have_parts(session()) ? options_.ranks.get() : nullptr};
}

void Trainer::save_model(const std::filesystem::path& directory) {
  prepare();
  if (!is_main_rank() && !ranks_have_parts(session())) return;
  const bool is_adapter = !session().family().adapters.empty() && !args_.lora_merge;
  const TransferProgress progress("save model", session(), {.adapters_alone = is_adapter}, options_.progress);
  save_model_directory(contents(), session().executor(), directory, args_.lora_merge);
}

void Trainer::save_state() const {
  if (!is_main_rank()) return;
  const DirectoryLock lock(args_.output_dir);
  save_trainer_state(state_, std::filesystem::path(args_.output_dir) / "trainer_state.json");
}

void Trainer::report_evaluation(Metrics metrics) {
  if (!reports_) reports_.emplace(args_, *run_, state_, evaluation_details_);
  const Metrics& logged = reports_->log(std::move(metrics));
  tell([&](TrainerCallback& callback, auto&... event) { callback.on_log(event..., logged); });
  reports_->write_page();
}

int64_t Trainer::measured_process_peak_bytes() const {
  return process_peak_bytes();
}

Metrics Trainer::memory_metrics() const {
  return {{"memory_arena_predicted_bytes", forecast().arena_bytes()},
          {"memory_arena_measured_bytes", run_->executor().resident_arena_bytes()},
          {"memory_process_predicted_bytes", forecast().process_peak_bytes()},
          {"memory_process_measured_bytes", measured_process_peak_bytes()}};
}

void print_summary(const TrainOutput& output, std::ostream& out) {
  out << format_summary(output.metrics, process_resident_bytes()) << std::flush;
}

}  // namespace shoehorn
