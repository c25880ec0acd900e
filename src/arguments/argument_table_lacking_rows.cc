// Rows of the table: names of TrainingArguments that this version knows and lacks or refuses, and old
// spellings.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {
namespace {

using Pairs = std::vector<std::pair<std::string_view, std::string>>;

constexpr std::string_view kNoMeshes =
    "ranks are data parallel; --zero_stage shares states, gradients and weights among them";
constexpr std::string_view kRanksOfMpi =
    "ranks are MPI's: `shoehorn launch` or mpirun starts and numbers them";
constexpr std::string_view kMainRank = "the first rank logs and saves";
constexpr std::string_view kWholeGradients = "every gradient is exchanged, once a step";
constexpr std::string_view kNoNetwork = "nothing is sent over the network; upload output_dir yourself";
constexpr std::string_view kOwnKernels =
    "the fused kernels are our own, and run unless --skip_pass leaves them out";
constexpr std::string_view kCountsOnly =
    "metrics are counted from labels and outputs, and see no inputs or losses";

std::vector<ArgumentSpec> distributed() {
  return {
      {.name = "parallelism_config",
       .group = kDistributed,
       .field = &Args::parallelism_config,
       .status = kNotYet,
       .why = kNoMeshes},
      {.name = "accelerator_config",
       .group = kDistributed,
       .kind = kKwargs,
       .status = kNotYet,
       .why = "batches are not split over ranks; accumulation and seeds have flags of their own"},
      {.name = "local_rank",
       .group = kDistributed,
       .kind = kInteger,
       .standard = int64_t{-1},
       .status = kNotYet,
       .why = kRanksOfMpi},
      {.name = "ddp_backend", .group = kDistributed, .kind = kText, .status = kNotYet, .why = kRanksOfMpi},
      {.name = "ddp_find_unused_parameters",
       .group = kDistributed,
       .kind = kFlag,
       .status = kNotYet,
       .why = kWholeGradients},
      {.name = "ddp_broadcast_buffers",
       .group = kDistributed,
       .kind = kFlag,
       .status = kNotYet,
       .why = kWholeGradients},
      {.name = "ddp_static_graph",
       .group = kDistributed,
       .kind = kFlag,
       .status = kNotYet,
       .why = kWholeGradients},
      {.name = "log_on_each_node",
       .group = kDistributed,
       .kind = kFlag,
       .standard = true,
       .status = kNotYet,
       .why = kMainRank},
      {.name = "save_on_each_node",
       .group = kDistributed,
       .kind = kFlag,
       .standard = false,
       .status = kNotYet,
       .why = kMainRank},
      {.name = "tpu_num_cores",
       .group = kDistributed,
       .kind = kInteger,
       .status = kRefused,
       .why = "there is no TPU backend"},
      {.name = "tpu_metrics_debug",
       .group = kDistributed,
       .kind = kFlag,
       .standard = false,
       .status = kRefused,
       .why = "there is no TPU backend"},
  };
}

std::vector<ArgumentSpec> hub_and_trackers() {
  const std::string none;
  return {
      {.name = "push_to_hub",
       .group = kHub,
       .kind = kFlag,
       .standard = false,
       .status = kRefused,
       .why = kNoNetwork},
      {.name = "hub_model_id", .group = kHub, .kind = kText, .status = kRefused, .why = kNoNetwork},
      {.name = "hub_token", .group = kHub, .kind = kText, .status = kRefused, .why = kNoNetwork},
      {.name = "hub_strategy",
       .group = kHub,
       .kind = kText,
       .standard = std::string("every_save"),
       .status = kRefused,
       .why = kNoNetwork},
      {.name = "hub_private_repo", .group = kHub, .kind = kFlag, .status = kRefused, .why = kNoNetwork},
      {.name = "hub_always_push",
       .group = kHub,
       .kind = kFlag,
       .standard = false,
       .status = kRefused,
       .why = kNoNetwork},
      {.name = "hub_revision", .group = kHub, .kind = kText, .status = kRefused, .why = kNoNetwork},
      {.name = "project",
       .group = kHub,
       .kind = kText,
       .standard = std::string("huggingface"),
       .status = kRefused,
       .why = kNoTracker},
      {.name = "trackio_space_id", .group = kHub, .kind = kText, .status = kRefused, .why = kNoTracker},
      {.name = "trackio_bucket_id", .group = kHub, .kind = kText, .status = kRefused, .why = kNoTracker},
      {.name = "trackio_static_space_id",
       .group = kHub,
       .kind = kText,
       .status = kRefused,
       .why = kNoTracker},
  };
}

std::vector<ArgumentSpec> other() {
  return {
      {.name = "optim_target_modules",
       .group = kOptimizer,
       .kind = kList,
       .status = kNotYet,
       .why = "no low-rank optimizer is built"},
      {.name = "liger_kernel_config",
       .group = kMemory,
       .kind = kKwargs,
       .status = kRefused,
       .why = kOwnKernels},
      {.name = "use_cache",
       .group = kMemory,
       .kind = kFlag,
       .standard = false,
       .status = kRefused,
       .why = "a training step keeps no key/value cache"},
      {.name = "torch_empty_cache_steps",
       .group = kMemory,
       .kind = kInteger,
       .status = kRefused,
       .why = "memory is planned: there is no allocator cache to empty"},
      {.name = "use_ipex",
       .group = kMemory,
       .kind = kFlag,
       .standard = false,
       .status = kRefused,
       .why = kOwnKernels},
      {.name = "jit_mode_eval",
       .group = kMemory,
       .kind = kFlag,
       .standard = false,
       .help = "accepted; evaluation is always compiled",
       .is_always_so = true},
      {.name = "half_precision_backend",
       .group = kPrecision,
       .kind = kText,
       .standard = std::string("auto"),
       .status = kRefused,
       .why = "there is one, our own",
       .aliases = {"fp16_backend"}},
      {.name = "fp16_opt_level",
       .group = kPrecision,
       .kind = kText,
       .standard = std::string("O1"),
       .status = kRefused,
       .why = "apex is not used"},
      {.name = "dataloader_multiprocessing_context",
       .group = kDataLoading,
       .kind = kText,
       .status = kRefused,
       .why = "workers are threads"},
      {.name = "dataloader_in_order",
       .group = kDataLoading,
       .kind = kFlag,
       .standard = true,
       .status = kRefused,
       .why = "batches always come in order"},
      {.name = "label_names",
       .group = kDataLoading,
       .kind = kList,
       .status = kNotYet,
       .why = "labels are columns of the file, which --label_column_name names"},
      {.name = "length_column_name",
       .group = kDataLoading,
       .kind = kText,
       .standard = std::string("length"),
       .status = kNotYet,
       .why = "lengths are measured"},
      {.name = "ignore_data_skip",
       .group = kSaving,
       .kind = kFlag,
       .standard = false,
       .status = kRefused,
       .why = "resuming goes on at the next sample, and replays nothing to find it"},
      {.name = "eval_do_concat_batches",
       .group = kEvaluation,
       .kind = kFlag,
       .standard = true,
       .status = kNotYet,
       .why = "metrics are counted batch by batch"},
      {.name = "eval_use_gather_object",
       .group = kEvaluation,
       .kind = kFlag,
       .standard = false,
       .status = kNotYet,
       .why = "metrics are counted batch by batch"},
      {.name = "include_for_metrics",
       .group = kEvaluation,
       .kind = kList,
       .status = kNotYet,
       .why = kCountsOnly},
      {.name = "include_inputs_for_metrics",
       .group = kEvaluation,
       .kind = kFlag,
       .standard = false,
       .status = kNotYet,
       .why = kCountsOnly},
      {.name = "include_tokens_per_second",
       .group = kLogging,
       .kind = kFlag,
       .standard = false,
       .status = kNotYet,
       .why = "samples and steps per second are reported"},
  };
}

// Old booleans are given as any text that parse_boolean takes. `now` is what the text `name` says so far;
// true stands for `value`, and false takes that back.
Pairs old_boolean(const std::string& text, std::string_view name, const std::string& now, const char* value) {
  if (parse_boolean(text).value_or(true)) return {{name, value}};
  if (now != value) return {};
  return {{name, std::get<std::string>(find_argument(name)->standard)}};
}

// Lightning's and Accelerate's precision, of the names that the row's choices support.
Pairs precision(const std::string& text, const Args&) {
  const bool bf16 = text.starts_with("bf16");
  const bool fp16 = text == "fp16" || text.starts_with("16");
  return {{"bf16", bf16 ? "true" : "false"}, {"fp16", fp16 ? "true" : "false"}};
}

// The type of weights without masters. float32 takes nothing back: --bf16 computes in bfloat16 beside such weights.
Pairs weights_dtype(const std::string& text, const Args& args) {
  if (text == "bfloat16") return {{"bf16", "true"}, {"master_weights", "none"}};
  return args.master_weights == "none" ? Pairs{{"master_weights", "fp32"}} : Pairs{};
}

}  // namespace

std::vector<ArgumentSpec> not_built() {
  std::vector<ArgumentSpec> rows = distributed();
  for (ArgumentSpec& row : hub_and_trackers()) rows.push_back(std::move(row));
  for (ArgumentSpec& row : other()) rows.push_back(std::move(row));
  return rows;
}

std::vector<ArgumentSpec> old_names() {
  return {
      {.name = "group_by_length",
       .group = kDataLoading,
       .read_by = kReadByTrain,
       .kind = kFlag,
       .help = "old name of --train_sampling_strategy group_by_length",
       .rewrite =
           [](const std::string& text, const Args& args) {
             return old_boolean(text, "train_sampling_strategy", args.train_sampling_strategy,
                                "group_by_length");
           }},
      {.name = "evaluate_during_training",
       .group = kEvaluation,
       .read_by = kReadByTrain,
       .kind = kFlag,
       .help = "old name of --eval_strategy steps",
       .rewrite =
           [](const std::string& text, const Args& args) {
             return old_boolean(text, "eval_strategy", args.eval_strategy, "steps");
           }},
      {.name = "adafactor",
       .group = kOptimizer,
       .kind = kFlag,
       .help = "old name of --optim adafactor",
       .rewrite = [](const std::string& text,
                     const Args& args) { return old_boolean(text, "optim", args.optim, "adafactor"); }},
      {.name = "mixed_precision",
       .group = kPrecision,
       .kind = kText,
       .help = "Accelerate's and Lightning's name of --bf16 and --fp16",
       .aliases = {"precision"},
       .choices = {{"no"},
                   {"32"},
                   {"32-true"},
                   {"bf16"},
                   {"bf16-mixed"},
                   {"fp16"},
                   {"16"},
                   {"16-mixed"},
                   {"fp8", kNotBuilt},
                   {"16-true", kNotBuilt},
                   {"bf16-true", "--bf16 --master_weights none keeps no fp32 weights either"},
                   {"64-true", kNotBuilt}},
       .rewrite = precision},
      {.name = "dtype",
       .group = kPrecision,
       .read_by = kReadByTrain | kReadByPlan | kReadByBench,
       .kind = kText,
       .help =
           "run_clm's type of the weights, here and in what is saved; bfloat16: --bf16 --master_weights none",
       .aliases = {"torch_dtype"},
       .choices = {{"float32"},
                   {"bfloat16"},
                   {"float16", "updates are lost in it: --fp16 computes in it and saves float32", kRefused},
                   {"auto", "files of any type are read; give float32 or bfloat16 for what is saved",
                    kRefused}},
       .rewrite = weights_dtype},
      {.name = "debug",
       .group = kDebugging,
       .read_by = kReadByTrain | kReadByBench | kReadByEval | kReadByPredict,
       .kind = kText,
       .standard = std::string(),
       .help = "underflow_overflow: --detect_anomaly",
       .choices = {{"underflow_overflow"}, {"tpu_metrics_debug", "there is no TPU backend", kRefused}},
       .rewrite = [](const std::string& text,
                     const Args&) { return text.empty() ? Pairs{} : Pairs{{"detect_anomaly", "true"}}; }},
  };
}

}  // namespace shoehorn::argument_rows
