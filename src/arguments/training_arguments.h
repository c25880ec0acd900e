// The arguments of a run: Hugging Face's TrainingArguments with their names and defaults (transformers 5.23),
// those of the run_glue example, and our own. A plain value; argument_table.h says which flag sets which
// member and what is refused.
//
//   TrainingArguments args{.output_dir = "out", .per_device_train_batch_size = 4, .bf16 = true};
//   args.gradient_checkpointing_kwargs = {{"every_n_layers", 2}};
//   validate(args);
//
// Conventions: an empty string or list means "not given". A value of *_steps below 1 is a fraction of the
// run's steps. A sample is a sequence; a step is an optimizer step.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/labels.h"
#include "graph/optimizer_settings.h"
#include "optim/reduce_lr_on_plateau.h"
#include "optim/schedule.h"

namespace shoehorn {

// A flat dictionary of options: {"every_n_layers": 2} in JSON, or "momentum=0.9,nesterov=true" in text.
using KwargValue = std::variant<bool, int64_t, double, std::string>;
using Kwargs = std::map<std::string, KwargValue>;

inline constexpr const char* kNoDatasetCache = "none";  // of TrainingArguments::dataset_cache

struct TrainingArguments {
  // Model and task.
  std::string model_name_or_path = {};
  // A new model, in place of model_name_or_path: a config.json (or its directory), or a model_type with its defaults,
  // and keys that differ ("n_layer=2,n_embd=64").
  std::string config_name = {};
  std::string model_type = {};
  std::string config_overrides = {};
  std::string tokenizer_name = {};  // a directory; empty: the model's
  std::string task = {};            // empty: what the model's config names
  std::string task_name = {};
  std::string problem_type = {};      // empty: determined by the training file's labels
  std::optional<bool> do_train = {};  // unset: the command train trains
  std::optional<bool> do_eval = {};   // unset: if there is a validation set
  bool do_predict = false;
  bool ignore_mismatched_sizes = false;  // a head of another size in the files is made anew

  // Data. max_seq_length is in tokens. With pad_to_max_length false, sequences are packed without padding
  // (run_glue: true).
  std::string dataset_name = {};  // of the Hugging Face hub: nothing is downloaded, files are what is read
  std::string dataset_config_name = {};
  std::string train_file = {};
  std::vector<std::string> train_file_weights = {};  // of each name in train_file; none: one behind the other
  std::string stopping_strategy = "first_exhausted";  // data/mixture.h
  std::string validation_file = {};
  std::string test_file = {};         // "-": standard input
  std::string test_file_format = {};  // csv, tsv or jsonl; empty: by the name, or of "-" by the first bytes
  std::vector<std::string> text_column_names = {};
  std::string label_column_name = {};
  std::string id_column = {};  // carried to the predictions; empty: their index
  int64_t max_seq_length = 128;
  bool pad_to_max_length = false;
  // A directory for tokenized data. Empty: those of one rank are held in memory, those of several are in the user's cache.
  // kNoDatasetCache: they are held in memory.
  std::string dataset_cache = {};
  bool overwrite_cache = false;
  std::optional<int64_t> max_train_samples = {};
  std::optional<int64_t> max_eval_samples = {};
  std::optional<int64_t> max_predict_samples = {};

  // Blocks of a language model (data/block_source.h), in tokens; unset: by model and tokenizer (train/language_data.h).
  std::optional<int64_t> block_size = {};
  std::string packing = "concatenate";
  std::string block_remainder = "keep";
  bool add_eos = false;
  bool keep_linebreaks = true;
  std::optional<int64_t> validation_split_percentage = {};  // without a validation_file

  // Output.
  std::string output_dir = "trainer_output";
  std::string output_file = {};         // "-": standard output
  std::string output_file_format = {};  // csv, tsv or jsonl; empty: by the name, of "-" JSON lines
  bool overwrite_output_dir = false;
  bool logits = false;
  bool write_texts = false;
  std::optional<int64_t> top_k = {};  // unset: the scores of all classes
  bool json = false;
  bool dtypes = false;

  // Batch. max_steps > 0 overrides num_train_epochs.
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;  // those of a rank
  // Samples per optimizer step over all ranks; unset: their product. Where the ranks do not divide its micro-batches, some
  // have one less than gradient_accumulation_steps.
  std::optional<int64_t> effective_batch_size = {};
  std::vector<std::string> batch_size_ramp = {};  // arguments/batch_size_ramp.h
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;
  bool auto_find_batch_size = false;
  bool average_tokens_across_devices = true;

  // Precision.
  bool bf16 = false;
  bool fp16 = false;
  bool bf16_full_eval = false;
  bool fp16_full_eval = false;
  std::optional<bool> tf32 = {};
  std::string master_weights = "fp32";
  // fp16's loss scale, named as in DeepSpeed; defaults are torch.amp.GradScaler's. loss_scale 0 is dynamic.
  double loss_scale = 0;
  int64_t initial_scale_power = 16;
  int64_t loss_scale_window = 2000;
  int64_t hysteresis = 1;
  double min_loss_scale = 1;

  // Memory and speed. memory_budget is in bytes for the whole process. num_threads unset: exec/backend/thread_count.h.
  std::optional<int64_t> memory_budget = {};
  bool lock_memory = false;
  std::optional<int64_t> num_threads = {};
  bool gradient_checkpointing = false;
  Kwargs gradient_checkpointing_kwargs = {};
  std::string activation_budget = {};  // as 1.5GiB, or a fraction from 0 to 1
  std::string recompute_set = {};      // file
  std::string accumulation_order = "micro_batch";
  bool update_in_backward = false;
  bool torch_compile = false;
  std::string torch_compile_backend = {};
  std::string torch_compile_mode = {};
  bool use_liger_kernel = false;
  std::optional<int64_t> eval_accumulation_steps = {};
  bool batch_eval_metrics = false;
  bool prediction_loss_only = false;
  bool skip_memory_metrics = true;

  // Low-rank adapters (passes/lora.h), named after PEFT's LoraConfig. lora_rank 0: off.
  int64_t lora_rank = 0;
  double lora_alpha = 8;
  double lora_dropout = 0.0;
  std::vector<std::string> lora_target = {};
  std::vector<std::string> lora_modules_to_save = {};
  bool lora_merge = false;

  // Optimizer and schedule. max_grad_norm 0 and max_grad_value 0 switch clipping off. If both are set,
  // clipping by the norm comes first.
  std::string optim = "adamw_torch_fused";
  Kwargs optim_args = {};
  double learning_rate = 5e-5;
  std::string scale_learning_rate = "none";
  std::optional<int64_t> reference_batch_size = {};
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;
  double max_grad_value = 0.0;
  double label_smoothing_factor = 0.0;
  double z_loss = 0.0;
  std::vector<std::string> class_weights = {};  // "balanced", a number for each class, or name=number
  std::optional<double> neftune_noise_alpha = {};
  std::string lr_scheduler_type = "linear";
  Kwargs lr_scheduler_kwargs = {};
  double warmup_steps = 0.0;
  double warmup_ratio = 0.0;

  // Data loading.
  int64_t dataloader_num_workers = 0;
  bool dataloader_pin_memory = true;
  std::optional<int64_t> dataloader_prefetch_factor = {};
  bool dataloader_drop_last = false;
  std::string train_sampling_strategy = "random";
  bool remove_unused_columns = true;

  // Distributed. world_size is the number of ranks that the run has, each a process with a micro-batch of its own.
  int64_t world_size = 1;
  std::optional<int64_t> ddp_bucket_cap_mb = {};
  int64_t ddp_timeout = 1800;
  bool enable_cpu_affinity = true;
  std::string parallel_mode = "ddp";
  int64_t zero_stage = 0;
  std::optional<int64_t> zero_prefetch_layers = {};        // the plan chooses (fit/gather_choice.h)
  std::optional<int64_t> zero_persistence_threshold = {};  // so, too
  int64_t local_sgd_steps = 0;                             // 0: gradients are summed in every step
  double outer_learning_rate = 1;
  double outer_momentum = 0;
  std::optional<int64_t> zero_group_size = {};  // 0: as many as a host has ranks
  // Ranks in a row that each host has, but for the last one, which may have fewer. A run knows it; plans take one host to
  // have all.
  std::optional<int64_t> ranks_per_host = {};
  // Files or JSON texts, and FSDP's words: arguments/neighbour_configs.h makes arguments of them.
  std::string deepspeed = {};
  std::string fsdp = {};
  std::string fsdp_config = {};
  Kwargs parallelism_config = {};

  // Saving.
  std::string save_strategy = "steps";
  double save_steps = 500;
  std::optional<int64_t> save_total_limit = {};
  bool save_only_model = false;
  bool load_best_model_at_end = false;
  std::string metric_for_best_model = {};
  std::optional<bool> greater_is_better = {};
  std::string resume_from_checkpoint = {};  // a directory, or "true": the newest complete one in output_dir
  bool allow_resume_changes = false;
  // Whether a stop (base/stop_request.h) saves a checkpoint. Unset: unless save_strategy is no. If true,
  // Trainer::train() also installs the handlers of signals; unset, the caller does it, as the command train.
  std::optional<bool> enable_jit_checkpoint = {};

  // Evaluation.
  std::string eval_strategy = "no";
  std::optional<double> eval_steps = {};
  double eval_delay = 0.0;  // epochs or steps, by eval_strategy
  bool eval_on_start = false;
  std::optional<int64_t> early_stopping_patience = {};  // evaluations; unset: no early stopping
  double early_stopping_threshold = 0.0;

  // Logging.
  std::string logging_strategy = "steps";
  double logging_steps = 500;
  bool logging_first_step = false;
  bool logging_nan_inf_filter = false;
  std::vector<std::string> report_to = {};  // resolved(): without "none", and with "all" expanded
  std::string run_name = {};
  std::string logging_dir = {};  // for event files; empty: output_dir/runs/<date>_<host>
  std::string include_num_input_tokens_seen = "no";
  std::string log_level = "passive";
  std::string log_level_replica = "warning";  // of ranks other than the first
  std::optional<bool> disable_tqdm = {};

  // Reproducibility and debugging.
  int64_t seed = 42;
  std::optional<int64_t> data_seed = {};
  bool full_determinism = false;
  bool use_cpu = false;
  bool detect_anomaly = false;
  int64_t profile = 0;  // number of optimizer steps
  std::string dump_program = {};
  std::vector<std::string> skip_pass = {};
  bool explain = false;
  std::vector<std::string> freeze = {};

  bool operator==(const TrainingArguments&) const = default;
};

// `args` completed by what follows from them: eval_steps from logging_steps, do_eval from eval_strategy,
// metric_for_best_model "loss" and greater_is_better if the best model, reduce_lr_on_plateau or early stopping needs
// them, update_in_backward for the optimizers that imply it, the reports that "all" means. Idempotent.
TrainingArguments resolved(TrainingArguments args);

// UserError for a value that is out of range, that this version lacks or refuses, or that contradicts
// another. `args` must be resolved. Reads no file.
void validate(const TrainingArguments& args);

// All arguments as JSON, by flag name; an unset value is null. The inverse takes any subset of the names. It
// refuses unknown and unsupported ones as the command line does, with "[`source`: name] …".
nlohmann::json to_json(const TrainingArguments& args);
TrainingArguments training_arguments_from_json(const nlohmann::json& object, const std::string& source);

// The number of warm-up steps in a run of `total_steps`: from warmup_steps or, if that is 0, from
// warmup_ratio.
int64_t warmup_steps_of(const TrainingArguments& args, int64_t total_steps);

// The learning-rate schedule as a function of the step. UserError for an lr_scheduler_kwargs key that is
// unknown or has a wrong value, and for an lr_scheduler_type that is no such function.
Schedule schedule_of(const TrainingArguments& args, int64_t total_steps);

// The schedule for lr_scheduler_type reduce_lr_on_plateau; nullopt for other types. `args` must be resolved.
// UserError as above, and if `mode` keeps its default although greater is better.
std::optional<ReduceLrOnPlateau> reduce_lr_on_plateau_of(const TrainingArguments& args);

// 0 without gradient checkpointing; else every_n_layers of gradient_checkpointing_kwargs (default 1;
// kRootOfLayers for "sqrt"). UserError for a key that is unknown or has a wrong value.
int64_t recompute_every_n_layers(const TrainingArguments& args);

// True if report_to names this report. `args` must be resolved.
bool reports_to(const TrainingArguments& args, std::string_view report);

// Samples per optimizer step over all ranks; with batch_size_ramp those of the largest batch.
int64_t effective_batch_size(const TrainingArguments& args);

// The same in micro-batches, and as many of them as a rank runs at most: gradient_accumulation_steps of valid arguments.
int64_t micro_batches_of_step(const TrainingArguments& args);

// Whether ranks gather weights in a way that is not given in full.
bool has_open_gathering(const TrainingArguments& args);

// Whether there are ranks that compute for the first one (--parallel_mode dp).
bool are_replicas(const TrainingArguments& args);
// How many of the ranks a host has: ranks_per_host, but no more than there are; all, unless it is given.
int64_t ranks_of_host(const TrainingArguments& args);
int64_t micro_batches_of_rank(const TrainingArguments& args);

// Cuts a step into micro-batches of `size`, or where an effective batch is given, into the largest ones below that divide
// it; gradient_accumulation_steps follows then.
void set_micro_batch_size(TrainingArguments& args, int64_t size);

// The learning rate after scale_learning_rate: multiplied by effective / reference batch, or by its square
// root.
double scaled_learning_rate(const TrainingArguments& args);

// "adamw", "sgd", …: the same for all values of `optim` that mean the same optimizer.
std::string_view optimizer_name(const TrainingArguments& args);

// The optimizer with its optim_args. UserError as above, and for a learning rate or schedule together with
// Adafactor's relative_step, which reads neither.
OptimizerSettings optimizer_settings_of(const TrainingArguments& args);

// UserError if the optimizer computes its own learning rate. Call it if a learning_rate was given, even the
// default.
void refuse_given_learning_rate(const TrainingArguments& args);

// True for torch_compile_backend eager or aot_eager, which ask for the unfused reference run.
bool wants_unfused_run(const TrainingArguments& args);

// The problem that the labels must define: problem_type, or regression if task_name is a GLUE task with
// regression; nullopt if the data decides.
std::optional<ProblemType> problem_of(const TrainingArguments& args);

// True if a larger value of the metric is better, for runs that leave greater_is_better unset. False for
// losses, as in the Trainer, and also for a regression's errors (mse, mae), for which the Trainer assumes
// true.
bool grows_when_better(std::string_view metric);

// The names of the one or two text columns: text_column_names, or those of the GLUE task in task_name, or
// none (the data decides).
std::vector<std::string> text_columns_of(const TrainingArguments& args);

}  // namespace shoehorn
