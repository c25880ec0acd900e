// Rows of the table: names of other trainers, for what has another name here or is not built.
//
// Where a name of theirs means exactly what a flag means here, it is an alias of that flag's row.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {
namespace {

// A flag of another trainer, and what to give here. `off` is a value that asks for nothing: it is accepted.
struct OtherName {
  std::string_view name;
  ArgumentKind kind;
  std::string_view instead;  // "Lightning; give --max_steps"
  ArgumentValue off = {};
};

constexpr std::string_view kQuantized =
    "base models are not quantized; --lora_rank with --bf16 trains adapters, and --optim adamw_8bit keeps optimizer "
    "states in 8 bits";
constexpr std::string_view kFsdp =
    "Accelerate; give --fsdp full_shard or shard_grad_op, or --zero_stage, and --fsdp_config for its file";
constexpr std::string_view kDeepspeed = "Accelerate; give --deepspeed with the file, or --zero_stage";
constexpr std::string_view kRanks = "ranks are data parallel: launch them with `shoehorn launch`";
constexpr std::string_view kNotOffloaded =
    "states and weights stay in the rank's memory; --memory_budget shows what fits there, --gradient_checkpointing, "
    "--lora_rank and --optim adamw_8bit make it less";
constexpr std::string_view kOnDevice =
    "training runs on the one device that there is, and nothing is moved between devices";
constexpr std::string_view kAlwaysFused = "attention and the other fused kernels are our own, and always run";
constexpr std::string_view kSmallStates =
    "optimizers with small states are --optim adamw_8bit, adafactor, lomo and adalomo";
constexpr std::string_view kOtherAdapters = "of adapters there is LoRA: --lora_rank";
constexpr std::string_view kNoChat =
    "texts are trained on as they are: --task causal-lm reads plain texts, with --packing and --add_eos";

std::vector<OtherName> names_of_scripts() {
  return {
      {"lr", kNumber, "many scripts; give --learning_rate"},
      {"batch_size", kInteger,
       "many scripts; give --per_device_train_batch_size, or --per_device_eval_batch_size for eval and predict"},
      {"train_batch_size", kInteger,
       "many scripts; give --per_device_train_batch_size, and --gradient_accumulation_steps for a larger batch in "
       "all"},
      {"eval_batch_size", kInteger, "many scripts; give --per_device_eval_batch_size"},
      {"epochs", kNumber, "many scripts; give --num_train_epochs"},
      {"num_epochs", kNumber, "axolotl and others; give --num_train_epochs"},
      {"optimizer", kText, "many scripts; give --optim"},
      {"lr_scheduler", kText, "axolotl and others; give --lr_scheduler_type"},
      {"num_warmup_steps", kInteger, "Accelerate's examples; give --warmup_steps"},
      {"gradient_clipping", kNumber, "DeepSpeed and Accelerate; give --max_grad_norm"},
      {"clip_grad_norm", kNumber, "torchtune and others; give --max_grad_norm"},
      {"seq_length", kInteger, "many scripts; give --max_seq_length, or --block_size for a language model"},
      {"streaming", kFlag,
       "the Trainer's examples; texts larger than memory are tokenized once into --dataset_cache DIR, and read from there",
       false},
      {"with_tracking", kFlag, "Accelerate's examples; give --report_to", false},
      {"config_file", kText, "Accelerate; give --config"},
      {"dynamo_backend", kText, "Accelerate; give --torch_compile_backend", std::string("no")},
      {"num_processes", kInteger, "Accelerate; `shoehorn launch` takes it and starts so many", int64_t{1}},
      {"num_machines", kInteger, "Accelerate; start the ranks with shoehorn launch and its hostfile",
       int64_t{1}},
  };
}

std::vector<OtherName> names_of_lightning() {
  return {
      {"max_epochs", kNumber, "Lightning; give --num_train_epochs"},
      {"accumulate_grad_batches", kInteger, "Lightning; give --gradient_accumulation_steps"},
      {"gradient_clip_val", kNumber, "Lightning; give --max_grad_norm, or --max_grad_value"},
      {"gradient_clip_algorithm", kText,
       "Lightning; --max_grad_norm clips by the norm, --max_grad_value by the value"},
      {"val_check_interval", kNumber, "Lightning; give --eval_strategy steps with --eval_steps"},
      {"check_val_every_n_epoch", kInteger, "Lightning; give --eval_strategy epoch"},
      {"limit_train_batches", kNumber, "Lightning; give --max_train_samples"},
      {"limit_val_batches", kNumber, "Lightning; give --max_eval_samples"},
      {"fast_dev_run", kFlag, "Lightning; give --max_steps 2 with --max_eval_samples", false},
      {"log_every_n_steps", kInteger, "Lightning; give --logging_steps"},
      {"default_root_dir", kText, "Lightning; give --output_dir"},
      {"ckpt_path", kText, "Lightning; give --resume_from_checkpoint"},
      {"enable_progress_bar", kFlag, "Lightning; give --disable_tqdm", true},
      {"enable_checkpointing", kFlag, "Lightning; give --save_strategy no", true},
      {"devices", kList, "Lightning; training runs on the one device that there is"},
      {"strategy", kText, "Lightning; ranks are data parallel", std::string("auto")},
      {"num_nodes", kInteger, "Lightning; start the ranks with shoehorn launch and its hostfile", int64_t{1}},
      {"deterministic", kFlag, "Lightning; runs are always deterministic", false},
      {"profiler", kText, "Lightning; give --profile with a number of steps"},
  };
}

std::vector<OtherName> names_of_deepspeed() {
  return {
      {"deepspeed_config", kText, "DeepSpeed; give --deepspeed"},
      {"train_micro_batch_size_per_gpu", kInteger, "DeepSpeed; give --per_device_train_batch_size"},
  };
}

std::vector<OtherName> names_of_language_trainers() {
  return {
      {"use_peft", kFlag, "TRL; give --lora_rank", false},
      {"dataset_text_field", kText, "TRL; give --text_column_names"},
      {"steps", kInteger, "many scripts; give --max_steps"},
      {"num_labels", kInteger, "many scripts; the classes are those of the training file"},
      {"finetuning_type", kText, "LLaMA-Factory; --lora_rank trains adapters, --freeze a part of the model",
       std::string("full")},
      {"adapter", kText, "axolotl; give --lora_rank"},
      {"lora_target_linear", kFlag, "axolotl; give --lora_target all-linear", false},
      {"freeze_trainable_layers", kInteger,
       "LLaMA-Factory; give --freeze with patterns of parameters' names"},
      {"val_size", kNumber, "LLaMA-Factory; give --validation_split_percentage, or --validation_file"},
      {"val_set_size", kNumber, "axolotl; give --validation_split_percentage, or --validation_file"},
      {"dataset", kList, "LLaMA-Factory; give --train_file"},
      {"dataset_dir", kText, "LLaMA-Factory; give --train_file"},
      {"datasets", kList, "axolotl; give --train_file"},
      {"sample_packing", kFlag, "axolotl; give --packing documents", false},
      {"pad_to_sequence_len", kFlag, "axolotl; give --pad_to_max_length", false},
      {"optimizer_in_bwd", kFlag, "torchtune; give --update_in_backward", false},
      {"enable_activation_checkpointing", kFlag, "torchtune; give --gradient_checkpointing", false},
      {"use_gradient_checkpointing", kText, "Unsloth; give --gradient_checkpointing", std::string("false")},
      {"random_state", kInteger, "Unsloth; give --seed"},
      {"max_steps_per_epoch", kInteger, "torchtune; give --max_steps, or --max_train_samples"},
      {"dataset_num_proc", kInteger, "TRL; tokenizing takes all threads of itself"},
  };
}

ArgumentSpec lacking(ArgumentStatus status, std::string_view name, ArgumentKind kind, std::string_view why,
                     ArgumentValue off = {}) {
  return {.name = name,
          .group = kOtherTrainers,
          .kind = kind,
          .standard = std::move(off),
          .status = status,
          .why = why};
}

void append_of_devices(std::vector<ArgumentSpec>& rows) {
  for (const std::string_view name : {"load_in_4bit", "load_in_8bit", "use_bnb_nested_quant"})
    rows.push_back(lacking(kNotYet, name, kFlag, kQuantized, false));
  for (const std::string_view name : {"quantization_bit", "bnb_4bit_quant_type", "bnb_4bit_compute_dtype"})
    rows.push_back(lacking(kNotYet, name, kText, kQuantized));
  rows.push_back(lacking(kNotYet, "quantization_config", kKwargs, kQuantized));
  for (const std::string_view name : {"use_fsdp", "fsdp_cpu_ram_efficient_loading", "fsdp_use_orig_params"})
    rows.push_back(lacking(kElsewhere, name, kFlag, kFsdp, false));
  for (const std::string_view name : {"use_deepspeed", "zero3_init_flag", "zero3_save_16bit_model"})
    rows.push_back(lacking(kElsewhere, name, kFlag, kDeepspeed, false));
  for (const std::string_view name : {"multi_gpu", "sync_batchnorm"})
    rows.push_back(lacking(kNotYet, name, kFlag, kRanks, false));
  rows.push_back(lacking(kNotYet, "fsdp_offload_params", kFlag, kNotOffloaded, false));
  for (const std::string_view name :
       {"fsdp_sharding_strategy", "fsdp_auto_wrap_policy", "fsdp_transformer_layer_cls_to_wrap",
        "fsdp_state_dict_type", "fsdp_backward_prefetch", "fsdp_min_num_params", "fsdp_version",
        "fsdp_reshard_after_forward"})
    rows.push_back(lacking(kElsewhere, name, kText, kFsdp));
  for (const std::string_view name : {"offload_optimizer_device", "offload_param_device"})
    rows.push_back(lacking(kNotYet, name, kText, kNotOffloaded));
  for (const std::string_view name : {"tensor_parallel_size", "context_parallel_size"})
    rows.push_back(lacking(kNotYet, name, kText, kRanks));
  for (const std::string_view name : {"device_map", "gpu_ids", "max_memory"})
    rows.push_back(lacking(kRefused, name, kText, kOnDevice));
}

void append_of_kernels(std::vector<ArgumentSpec>& rows) {
  for (const std::string_view name : {"use_unsloth", "use_unsloth_gc", "unsloth_lora_mlp", "unsloth_lora_qkv",
                                      "unsloth_lora_o", "enable_liger_kernel", "flash_attention",
                                      "xformers_attention", "sdp_attention", "use_flash_attention_2"})
    rows.push_back(lacking(kRefused, name, kFlag, kAlwaysFused, false));
  rows.push_back(lacking(kRefused, "flash_attn", kText, kAlwaysFused, std::string("auto")));
  rows.push_back(
      {.name = "attn_implementation",
       .group = kOtherTrainers,
       .kind = kText,
       .standard = std::string(),
       .help = "accepted; attention is always fused, and never holds a sequence's square of scores",
       .choices = {{"sdpa"},
                   {"flash_attention_2"},
                   {"flash_attention_3"},
                   {"flex_attention"},
                   {"eager", "--skip_pass fuse leaves the fusions out", kRefused}},
       .is_always_so = true});
}

void append_of_methods(std::vector<ArgumentSpec>& rows) {
  for (const std::string_view name : {"use_dora", "use_rslora"})
    rows.push_back(lacking(kNotYet, name, kFlag, kOtherAdapters, false));
  for (const std::string_view name : {"use_galore", "use_badam", "use_apollo"})
    rows.push_back(lacking(kNotYet, name, kFlag, kSmallStates, false));
  for (const std::string_view name :
       {"peft_type", "lora_task_type", "init_lora_weights", "loraplus_lr_ratio"})
    rows.push_back(lacking(kNotYet, name, kText, kOtherAdapters));
  for (const std::string_view name :
       {"completion_only_loss", "assistant_only_loss", "train_on_prompt", "mask_history"})
    rows.push_back(lacking(kNotYet, name, kFlag, kNoChat, false));
  for (const std::string_view name : {"template", "chat_template", "chat_template_path", "stage"})
    rows.push_back(lacking(kNotYet, name, kText, kNoChat));
}

}  // namespace

std::vector<ArgumentSpec> other_trainers() {
  std::vector<ArgumentSpec> rows;
  append_of_devices(rows);
  append_of_kernels(rows);
  append_of_methods(rows);
  for (const std::vector<OtherName>& names :
       {names_of_scripts(), names_of_lightning(), names_of_deepspeed(), names_of_language_trainers()}) {
    for (const OtherName& other : names)
      rows.push_back(lacking(kElsewhere, other.name, other.kind, other.instead, other.off));
  }
  return rows;
}

}  // namespace shoehorn::argument_rows
