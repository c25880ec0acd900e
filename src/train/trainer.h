// Training as the Hugging Face Trainer does it, on planned programs.
//
//   TrainingArguments args{.output_dir = "out", .per_device_train_batch_size = 4};
//   Trainer trainer(model, args, train_dataset);
//   const TrainOutput result = trainer.train();
//   print_summary(result);
//
// The constructor plans; memory is reserved by the first call of train(), evaluate() or predict() and given
// back when the trainer is destroyed. One thread at a time; several trainers in a process may follow each
// other.
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
#include "model/model_builder.h"
#include "model/score.h"
#include "optim/optimizer.h"
#include "session/memory_alternatives.h"
#include "state/checkpoint.h"
#include "state/original_weights.h"
#include "state/trainer_state.h"
#include "train/evaluation.h"
#include "train/html_report.h"
#include "train/live_reports.h"
#include "train/progress.h"
#include "train/step_runner.h"

namespace shoehorn {

struct TrainerOptions {
  // Own optimizer in place of what the arguments say; groups in place of the two of the Trainer.
  std::optional<OptimizerOptions> optimizer = {};
  std::vector<ParameterGroup> optimizer_groups = {};
  // Own metrics of an evaluation, added to the standard ones; names without "eval_". What was counted is the score of
  // the model's task: score_as<ConfusionCounts>(score) of one class a text.
  std::function<Metrics(const Score& score)> compute_metrics = {};
  // A directory of weights to start from; empty: the model's own (from_pretrained), or where it has none
  // every parameter from its initializer, seeded by `seed`.
  std::filesystem::path weights = {};
  // An adapter that the model starts with, in PEFT's format; lora_rank and the others say what it is.
  std::filesystem::path adapter = {};
  // Files copied beside the saved weights (tokenizer, vocabulary).
  std::vector<std::filesystem::path> companions = {};
  // Told about the run: one line a log entry and one a notice. Unset: silent.
  std::function<void(const std::string& line)> on_line = {};
  ProgressOptions progress = {};
  // What it is planned for and runs on; null: the CPU (exec/backends.h).
  std::shared_ptr<const Backend> backend = {};
  // Whether what --profile recorded becomes output_dir/profile.json; it is in profile() all the same.
  bool write_profile = true;
};

struct TrainOutput {
  int64_t global_step = 0;
  double training_loss = 0;
  Metrics metrics;  // train_runtime, train_loss, …, train_data_wait_share, and the four memory_* keys
};

class Trainer {
 public:
  // `model` outlives the trainer. UserError for arguments or data that do not go together, or no data at all.
  // Without training data evaluate() and predict() refuse weights that lack a parameter of the model.
  Trainer(const Model& model, TrainingArguments args, Dataset train_dataset, Dataset eval_dataset = {},
          TrainerOptions options = {});

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // What training will take; before train() this reserves nothing.
  const MemoryForecast& forecast() const { return forecast_; }
  Alternatives alternatives() const;
  // Steps of an epoch and of the whole run; there is training data.
  TrainingSteps steps() const;

  // Refuses with UserError (format_refusal) what does not fit the budget, where there is no training data, and
  // where another run has output_dir (io/directory_lock.h). Resumes where resume_from_checkpoint says.
  TrainOutput train();
  // Of the evaluation data set; what it measures by labels is left out where none has one. UserError without
  // such data.
  Metrics evaluate();

  // The outputs that the model's task scores (S, C), logits or values, of each batch of the evaluation data set, in
  // order. UserError without such data.
  void predict(const std::function<void(std::span<const float> outputs)>& on_outputs);

  // config.json, weights and companions into `directory` (made where absent). Of a run with lora_rank its
  // adapters, or with lora_merge the whole model. UserError where another run has the directory.
  void save_model(const std::filesystem::path& directory);
  // The evaluation of the trained model as the last entry of the log, in the reports that report_to names.
  void report_evaluation(Metrics metrics);
  // trainer_state.json into output_dir.
  void save_state() const;

  const Session& session() const { return *session_; }
  Session& session() { return *session_; }
  const TrainerState& state() const { return state_; }
  const TrainingArguments& arguments() const { return args_; }
  // Of the whole run so far, measured.
  int64_t measured_process_peak_bytes() const;
  // Seconds from the construction of the trainer to the start of step 1; 0 before.
  double seconds_to_first_step() const { return seconds_to_first_step_; }
  // What --profile recorded: of training or, where there is no training data, of evaluate(). Null without it.
  const StepProfile* profile() const { return profile_.get(); }
  // Seconds of each optimizer step of the last train().
  const std::vector<double>& step_seconds() const { return step_seconds_; }

 private:
  void plan();
  bool may_shrink_batch() const;
  bool writes_output_dir() const;
  void prepare();
  void load_start();
  void resume();
  void forget_best_model();
  void require_evaluation_data(const char* call) const;
  void train_epochs(class Progress& progress);
  TrainOutput finish_run(double seconds);
  bool next_window(struct Window& window);
  void step(const struct Window& window);
  void after_step(class Progress& progress);
  void log_losses(class Progress& progress);
  void add_loss_scale(Metrics& metrics) const;
  const Metrics& note(Metrics entry);
  void note_throughput();
  void start_reports();
  void record_nodes();
  void write_report() const;
  double next_learning_rate() const;
  void evaluate_and_note(class Progress& progress);
  void reduce_on_plateau(const Metrics& metrics, class Progress& progress);
  void save(class Progress& progress);
  void load_best_model();
  void say(const std::string& line) const;
  CheckpointContents contents() const;
  Metrics memory_metrics() const;

  const Model& model_;
  TrainingArguments args_;
  Dataset train_dataset_;
  Dataset eval_dataset_;
  TrainerOptions options_;
  double constructed_seconds_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<class WindowIterator> windows_;  // packs into the session's staging
  MemoryForecast forecast_;
  // What moves the learning rate: one of the two where there is training data.
  std::optional<Schedule> schedule_;
  std::optional<ReduceLrOnPlateau> plateau_;
  std::optional<StepRunner> runner_;
  TrainerState state_;
  RunPosition position_;
  RunIdentity identity_;                      // of a run that is resumed or saved
  bool is_prepared_ = false;                  // reserved, and the weights are there
  std::optional<OriginalWeights> originals_;  // what the weights came from
  int64_t first_step_ = 0;
  int64_t samples_this_run_ = 0;
  float last_grad_norm_ = 0;
  double last_learning_rate_ = 0;
  double seconds_to_first_step_ = 0;
  std::vector<double> step_seconds_;
  std::unique_ptr<StepProfile> profile_;
  std::optional<RunReporter> reporter_;
  double window_wait_seconds_ = 0;
  std::vector<Throughput> throughput_;
  double step_seconds_since_log_ = 0;
  int64_t samples_since_log_ = 0;
  Metrics end_metrics_;
};

// The guides' print_summary: prints format_summary (train/results.h) of a training result and of the
// memory that this process holds now.
void print_summary(const TrainOutput& output, std::ostream& out = std::cout);

}  // namespace shoehorn
