// Training as with the Hugging Face Trainer, on planned programs.
//
//   TrainingArguments args{.output_dir = "out", .per_device_train_batch_size = 4};
//   Trainer trainer(model, args, train_dataset);
//   const TrainOutput result = trainer.train();
//   print_summary(result);
//
// The constructor plans. The first call of train(), evaluate() or predict() reserves the memory; the
// destructor frees it. One thread at a time. A process may create several trainers, one after another.
//
// A stop that is requested (base/stop_request.h) ends train() early, with a checkpoint; evaluate() and predict() throw
// Stopped. The trainer installs handlers of signals only with enable_jit_checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/step_profile.h"
#include "arguments/step_settings.h"
#include "arguments/training_arguments.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/training_steps.h"
#include "fit/memory_alternatives.h"
#include "model/model_builder.h"
#include "model/score.h"
#include "optim/optimizer.h"
#include "ranks/communicator.h"
#include "state/checkpoint.h"
#include "state/original_weights.h"
#include "state/trainer_state.h"
#include "train/early_stopping.h"
#include "train/evaluation.h"
#include "train/learning_rate.h"
#include "train/planned_run.h"
#include "train/progress.h"
#include "train/run_reports.h"
#include "train/trainer_callback.h"
#include "train/training_loop.h"

namespace shoehorn {

struct TrainerOptions {
  // A custom optimizer instead of the arguments'; parameter groups instead of the Trainer's two.
  std::optional<OptimizerOptions> optimizer = {};
  std::vector<ParameterGroup> optimizer_groups = {};
  // Custom evaluation metrics, added to the standard ones; names without "eval_". `score` is what the model's
  // task counted; for single-label classification score_as<ConfusionCounts>(score).
  std::function<Metrics(const Score& score)> compute_metrics = {};
  // The directory with the weights to start from. Empty: the model's own (from_pretrained) or, if it has
  // none, new weights from the initializers and `seed`.
  std::filesystem::path weights = {};
  // An adapter to start with, in PEFT's format. It must match lora_rank and the other lora_* arguments.
  std::filesystem::path adapter = {};
  // Files to copy beside the saved weights (tokenizer, vocabulary).
  std::vector<std::filesystem::path> companions = {};
  // Called with a line for each log entry and each notice. Unset: no lines.
  std::function<void(const std::string& line)> on_line = {};
  // The bars of training, evaluating, predicting, and of loading and saving that take long.
  ProgressOptions progress = {};
  // Get the events of training, in this order; add_callback() adds more.
  std::vector<std::shared_ptr<TrainerCallback>> callbacks = {};
  // The backend to plan for and run on. Null: the CPU (exec/backends.h).
  std::shared_ptr<const Backend> backend = {};
  // The ranks that train together (ranks/open_ranks.h), each with a Trainer of the same arguments and data. The first
  // writes files and calls on_line; all return the same results. Null: one rank.
  std::shared_ptr<Communicator> ranks = {};
  // The most that this process will hold besides what it holds when the Trainer is made. The forecast counts it.
  int64_t caller_bytes = 0;
  // Whether --profile's record is written to output_dir/profile.json; profile() returns it in any case.
  bool write_profile = true;
  // The predicted seconds of a planned step, by which the first rank chooses what nobody gave (fit/gather_choice.h); nothing
  // where nobody knows. It may be null.
  std::function<std::optional<double>(const Session& session)> step_seconds = {};
  // save_model(output_dir) follows train(): whether the disk has room for the model is checked too.
  bool saves_model = false;
};

struct TrainOutput {
  int64_t global_step = 0;
  double training_loss = 0;
  Metrics metrics;  // train_runtime, train_loss, …, train_data_wait_share, and four memory_* keys
  // Of training that a stop ended (base/stop_request.h): its signal, and the checkpoint of its last step, from which a
  // resumed run goes on bit for bit. 0 and empty otherwise; no path if nothing was to be saved.
  int stop_signal = 0;
  std::filesystem::path checkpoint = {};
};

class Trainer {
 public:
  // `model` must outlive the trainer. UserError if arguments or data do not go together, if there is no data at all, or if
  // a rank has other arguments than the first; all ranks construct theirs together. Without training data, evaluate() and
  // predict() refuse weights that lack a parameter of the model.
  Trainer(const Model& model, TrainingArguments args, Dataset train_dataset, Dataset eval_dataset = {},
          TrainerOptions options = {});

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Adds a callback behind those that are there. Call it before train().
  void add_callback(std::shared_ptr<TrainerCallback> callback) { callbacks_.add(std::move(callback)); }

  // What training will take. Nothing is reserved before train().
  const MemoryForecast& forecast() const { return run_->forecast(); }
  Alternatives alternatives() const;
  // The number of steps per epoch and in all. Needs training data.
  TrainingSteps steps() const;

  // UserError if the plan does not fit the budget (format_refusal), if there is no training data, if another run has
  // output_dir (io/directory_lock.h), if it is not one for all ranks that use it, or for what would end the run in a later
  // step (start_checks.h). Resumes if resume_from_checkpoint says so.
  //
  // If a stop is requested, the step or the evaluation under way is given up, a checkpoint is saved (see
  // enable_jit_checkpoint) unless there is one of this step, the reports are written, and the output says so. The best
  // model is not loaded then. Stopped if a stop is requested while the samples are hashed, before anything is loaded or saved.
  TrainOutput train();
  // Evaluates on the evaluation data set. Metrics that need labels are left out if no sample has one.
  // UserError without an evaluation data set; Stopped if a stop is requested.
  Metrics evaluate();
  // What the metrics of the last evaluation leave out: further averages, classes, the confusion matrix. Empty before the
  // first.
  const ScoreDetails& evaluation_details() const { return evaluation_details_; }

  // Calls on_outputs for each batch of the evaluation data set, in order, with the outputs that the task
  // scores ([S, C] logits or values). UserError without an evaluation data set; Stopped if a stop is requested.
  void predict(const std::function<void(std::span<const float> outputs)>& on_outputs);

  // Writes config.json, weights and companions to `directory`, which is created if it does not exist. With
  // lora_rank it writes the adapters; with lora_merge the whole model. UserError if another run has the
  // directory.
  void save_model(const std::filesystem::path& directory);
  // Adds the trained model's evaluation as the last log entry to the reports that report_to names.
  void report_evaluation(Metrics metrics);
  // Writes trainer_state.json to output_dir.
  void save_state() const;

  // Of the model's classes or values, in order.
  const std::vector<std::string>& label_names() const { return model_.task().label_map().names; }
  const Session& session() const { return run_->session(); }
  Session& session() { return run_->session(); }
  const TrainerState& state() const { return state_; }
  const TrainingArguments& arguments() const { return args_; }
  // The highest memory of the process so far, measured.
  int64_t measured_process_peak_bytes() const;
  // Seconds from the trainer's construction to the start of step 1; 0 before that.
  double seconds_to_first_step() const { return seconds_to_first_step_; }
  // What --profile recorded: training or, without training data, evaluate(). Null without --profile.
  const StepProfile* profile() const { return run_->profile(); }
  // The duration of each optimizer step of the last train(), and what it computed on.
  const std::vector<double>& step_seconds() const { return step_seconds_; }
  const std::vector<StepSize>& step_sizes() const { return step_sizes_; }

 private:
  void plan();
  void choose_gathering_of_ranks();
  std::optional<double> predicted_step_seconds() const;
  bool may_shrink_batch() const;
  bool fits_on_all_ranks() const;
  int64_t find_batch_size();
  bool is_main_rank() const;
  void check_ranks() const;
  ByteProgress hash_progress() const;
  void check_resumed(const std::filesystem::path& checkpoint) const;
  void wait_for_ranks() const;
  bool saves_when_stopped() const;
  bool saves_checkpoints() const;
  bool writes_output_dir() const;
  bool all_use_output_dir() const;
  void add_early_stopping();
  void add_load_notice();
  void check_start() const;
  void prepare();
  void load_start();
  void resume();
  void forget_best_model();
  void require_evaluation_data(const char* call) const;
  Metrics measure(const EvaluationOptions& options);
  std::filesystem::path save_checkpoint();
  std::filesystem::path save_stopped();
  TrainOutput output_of(const TrainingLoop& loop, double seconds);
  void report_shares(Metrics& metrics) const;
  void report_waits(Metrics& metrics, double seconds) const;
  void finish_training(TrainOutput& output, const TrainingLoop& loop, double seconds);
  template <typename Call>
  void tell(const Call& call);
  void load_best_model();
  void say(const std::string& line) const;
  void log_line(const std::string& line) const;
  CheckpointContents contents() const;
  Metrics memory_metrics() const;

  const Model& model_;
  TrainingArguments args_;
  Dataset train_dataset_;
  Dataset eval_dataset_;
  TrainerOptions options_;
  double constructed_seconds_;
  std::unique_ptr<PlannedRun> run_;
  std::optional<LearningRate> learning_rate_;      // with training data
  std::shared_ptr<EarlyStopping> early_stopping_;  // null: training ends with its last step
  TrainerState state_;
  RunPosition position_;
  CallbackList callbacks_;
  RunIdentity identity_;                      // of a run that is resumed or saved
  bool is_prepared_ = false;                  // reserved, and the weights are there
  std::optional<OriginalWeights> originals_;  // the files of the weights
  ScoreDetails evaluation_details_;           // of the last evaluation
  std::optional<RunReports> reports_;
  // The newest checkpoint of this run in output_dir, and the state that it has.
  struct Saved {
    std::filesystem::path checkpoint;
    int64_t step = 0;
    size_t log_entries = 0;
    bool is_epoch_ended = false;
  };
  std::optional<Saved> saved_;
  Progress* progress_ = nullptr;  // of the train() that runs
  std::vector<double> step_seconds_;
  std::vector<StepSize> step_sizes_;
  double seconds_to_first_step_ = 0;
  double waited_before_ = 0;  // seconds, for other ranks
};

// The guides' print_summary: prints format_summary (train/results.h) for a training result and this process's
// current memory.
void print_summary(const TrainOutput& output, std::ostream& out = std::cout);

}  // namespace shoehorn
