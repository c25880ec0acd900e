#include "arguments/deepspeed_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "arguments/config_value.h"
#include "base/format.h"
#include "base/user_error_kinds.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

enum class Use : uint8_t {
  kRead,
  kNoEffect,
  kSilent,  // without effect, and part of what is off: nothing is said
  kOffOnly,
  kNotYet,  // as kOffOnly: may come in a later version
  kSwitch,
};

struct Key {
  std::string_view path;
  Use use = Use::kRead;
  std::string_view why = {};  // of a refusal: what to do
  std::string_view off = {};  // JSON of a value that asks for nothing, beside those of asks_for_nothing()
};

constexpr std::string_view kOffload = "states and weights stay in the rank's memory; leave device at none";
constexpr std::string_view kOtherParallel = "ranks are data parallel: launch them with `shoehorn launch`";
constexpr std::string_view kOnePartition =
    "weights are gathered from all ranks that share them; --zero_group_size says how many do";
constexpr std::string_view kTraces = "--profile N measures N steps by operation";
constexpr std::string_view kGradientType = "gradients are summed in the type that they are computed in";
constexpr std::string_view kReportFiles =
    "--report_to tensorboard,html,jsonl writes files into --logging_dir";
constexpr std::string_view kNoService = "nothing is sent to a service; --report_to writes files";
constexpr std::string_view kTorchCompile = "give --torch_compile";
constexpr std::string_view kNotOptimizer = "no optimizer here has it";

const std::vector<Key>& keys() {
  using enum Use;
  static const std::vector<Key> all = {
      // Batch and steps.
      {"train_batch_size"},
      {"train_micro_batch_size_per_gpu"},
      {"gradient_accumulation_steps"},
      {"gradient_clipping"},
      {"dataloader_drop_last"},
      {"steps_per_print", kNoEffect},
      {"prescale_gradients", kNoEffect},
      {"gradient_predivide_factor", kNoEffect},
      {"sparse_gradients", kOffOnly, "the gradient of an embedding is whole"},
      {"communication_data_type", kOffOnly, kGradientType, R"("fp32")"},
      {"seq_parallel_comm_data_type", kSilent},
      {"seq_parallel_communication_data_type", kSilent},
      {"data_types.grad_accum_dtype", kOffOnly, kGradientType, R"("fp32")"},
      {"disable_allgather", kNoEffect},
      {"fp32_allreduce", kNoEffect},
      {"vocabulary_size", kNoEffect},
      {"graph_harvesting", kNoEffect},
      // Precision.
      {"fp16.enabled"},
      {"fp16.loss_scale"},
      {"fp16.initial_scale_power"},
      {"fp16.loss_scale_window"},
      {"fp16.hysteresis"},
      {"fp16.min_loss_scale"},
      {"fp16.auto_cast", kNoEffect},
      {"fp16.fused_mode", kNoEffect},
      {"fp16.consecutive_hysteresis", kNotYet, "hysteresis is counted since the scale grew"},
      {"fp16.fp16_master_weights_and_grads", kOffOnly, "updates are lost in fp16: masters are fp32"},
      {"bf16.enabled"},
      {"bf16.immediate_grad_update", kNoEffect},
      {"bf16.check_grad_overflow", kNoEffect},
      {"bf16.bf16_master_weights_and_grads", kOffOnly,
       "give --master_weights none for weights that are only bf16"},
      {"bf16.bf16_optimizer_states", kNotYet, "--optim adamw_8bit keeps optimizer states in 8 bits"},
      {"bfloat16.enabled"},
      {"amp", kSwitch, "apex is not used: give bf16 or fp16"},
      {"torch_autocast", kSwitch, "give bf16 or fp16, which compute in it and keep fp32 masters"},
      // Optimizer and scheduler.
      {"optimizer.type"},
      {"optimizer.legacy_fusion", kNoEffect},
      {"optimizer.params.lr"},
      {"optimizer.params.betas"},
      {"optimizer.params.eps"},
      {"optimizer.params.weight_decay"},
      {"optimizer.params.momentum"},
      {"optimizer.params.nesterov"},
      {"optimizer.params.alpha"},
      {"optimizer.params.centered"},
      {"optimizer.params.lr_decay"},
      {"optimizer.params.adam_w_mode"},
      {"optimizer.params.torch_adam", kNoEffect},
      {"optimizer.params.bias_correction", kOffOnly, kNotOptimizer, "true"},
      {"optimizer.params.amsgrad", kOffOnly, kNotOptimizer},
      {"optimizer.params.dampening", kOffOnly, kNotOptimizer},
      {"optimizer.params.initial_accumulator_value", kOffOnly, kNotOptimizer},
      {"optimizer.params.fp32_optimizer_states", kOffOnly,
       "--optim adamw_8bit keeps optimizer states in 8 bits", "true"},
      {"optimizer.params.max_grad_norm", kOffOnly, "give gradient_clipping, at the file's top"},
      {"scheduler.type"},
      {"scheduler.params.warmup_min_lr", kNotYet, "warm-up begins at 0"},
      {"scheduler.params.warmup_min_ratio", kNotYet, "warm-up begins at 0"},
      {"scheduler.params.warmup_max_lr"},
      {"scheduler.params.warmup_num_steps"},
      {"scheduler.params.warmup_type"},
      {"scheduler.params.total_num_steps"},
      {"scheduler.params.cos_min_ratio"},
      {"scheduler.params.last_batch_iteration", kOffOnly, "a resumed run goes on at its step", "-1"},
      // ZeRO. The deprecated form is a boolean.
      {"zero_optimization"},
      {"zero_optimization.stage"},
      {"zero_optimization.stage3_param_persistence_threshold"},
      {"zero_optimization.reduce_bucket_size"},
      {"zero_optimization.allgather_bucket_size", kNoEffect},
      {"zero_optimization.allgather_partitions", kNoEffect},
      {"zero_optimization.reduce_scatter", kNoEffect},
      {"zero_optimization.overlap_comm", kNoEffect},
      {"zero_optimization.contiguous_gradients", kNoEffect},
      {"zero_optimization.use_multi_rank_bucket_allreduce", kNoEffect},
      {"zero_optimization.round_robin_gradients", kNoEffect},
      {"zero_optimization.sub_group_size", kNoEffect},
      {"zero_optimization.load_from_fp32_weights", kNoEffect},
      {"zero_optimization.elastic_checkpoint", kNoEffect},
      {"zero_optimization.ignore_unused_parameters", kNoEffect},
      {"zero_optimization.legacy_stage1", kNoEffect},
      {"zero_optimization.memory_efficient_linear", kNoEffect},
      {"zero_optimization.override_module_apply", kNoEffect},
      {"zero_optimization.log_trace_cache_warnings", kNoEffect},
      {"zero_optimization.enable_sanity_checks", kNoEffect},
      {"zero_optimization.leaf_module.classes", kNoEffect},
      {"zero_optimization.leaf_module.names", kNoEffect},
      {"zero_optimization.leaf_module.name_suffixes", kNoEffect},
      {"zero_optimization.pipeline_loading_checkpoint", kNoEffect},
      {"zero_optimization.stage3_max_live_parameters", kNoEffect},
      {"zero_optimization.stage3_max_reuse_distance", kNoEffect},
      {"zero_optimization.stage3_prefetch_bucket_size", kNoEffect},
      {"zero_optimization.stage3_model_persistence_threshold", kNoEffect},
      {"zero_optimization.stage3_module_granularity_threshold", kNoEffect},
      {"zero_optimization.stage3_use_all_reduce_for_fetch_params", kNoEffect},
      {"zero_optimization.stage3_allgather_sequential", kNoEffect},
      {"zero_optimization.stage3_partition_stream_chunk_size", kNoEffect},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", kNoEffect},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", kNoEffect},
      {"zero_optimization.offload_optimizer.device", kNotYet, kOffload, R"("none")"},
      {"zero_optimization.offload_optimizer.nvme_path", kSilent},
      {"zero_optimization.offload_optimizer.buffer_count", kSilent},
      {"zero_optimization.offload_optimizer.pin_memory", kSilent},
      {"zero_optimization.offload_optimizer.pipeline", kSilent},
      {"zero_optimization.offload_optimizer.pipeline_read", kSilent},
      {"zero_optimization.offload_optimizer.pipeline_write", kSilent},
      {"zero_optimization.offload_optimizer.fast_init", kSilent},
      {"zero_optimization.offload_optimizer.ratio", kSilent},
      {"zero_optimization.offload_optimizer.super_offload", kSilent},
      {"zero_optimization.offload_optimizer.convert_grad_on_cpu", kSilent},
      {"zero_optimization.offload_optimizer.cpuadam_cores_perc", kSilent},
      {"zero_optimization.zenflow", kNotYet, kOffload},
      {"zero_optimization.offload_param.device", kNotYet, kOffload, R"("none")"},
      {"zero_optimization.offload_param.nvme_path", kSilent},
      {"zero_optimization.offload_param.buffer_count", kSilent},
      {"zero_optimization.offload_param.buffer_size", kSilent},
      {"zero_optimization.offload_param.max_in_cpu", kSilent},
      {"zero_optimization.offload_param.pin_memory", kSilent},
      {"zero_optimization.cpu_offload", kNotYet, kOffload},
      {"zero_optimization.cpu_offload_param", kNotYet, kOffload},
      {"zero_optimization.cpu_offload_use_pin_memory", kSilent},
      {"zero_optimization.zero_hpz_partition_size", kNotYet, kOnePartition, "1"},
      {"zero_optimization.zero_quantized_weights", kNotYet, "messages have the type of what they carry"},
      {"zero_optimization.zero_quantized_nontrainable_weights", kNotYet, "base models are not quantized"},
      {"zero_optimization.zero_quantized_gradients", kNotYet, "messages have the type of what they carry"},
      {"zero_optimization.zeropp_loco_param", kNotYet, "messages have the type of what they carry"},
      {"zero_optimization.mics_shard_size"},
      {"zero_optimization.mics_hierarchical_params_gather", kNotYet, kOnePartition},
      {"zero_allow_untested_optimizer", kNoEffect},
      {"zero_force_ds_cpu_optimizer", kNoEffect},
      {"aio.block_size", kSilent},
      {"aio.queue_depth", kSilent},
      {"aio.thread_count", kSilent},
      {"aio.intra_op_parallelism", kSilent},
      {"aio.single_submit", kSilent},
      {"aio.overlap_events", kSilent},
      {"aio.use_gds", kSilent},
      // Recomputation. The Trainer's models recompute by --gradient_checkpointing, and not by this section.
      {"activation_checkpointing.partition_activations", kNotYet, kOtherParallel},
      {"activation_checkpointing.cpu_checkpointing", kNotYet, "what is kept stays in the rank's memory"},
      {"activation_checkpointing.contiguous_memory_optimization", kNoEffect},
      {"activation_checkpointing.number_checkpoints", kNoEffect},
      {"activation_checkpointing.synchronize_checkpoint_boundary", kNoEffect},
      {"activation_checkpointing.profile", kOffOnly, kTraces},
      // Other kinds of parallelism.
      {"pipeline", kNotYet, kOtherParallel},
      {"tensor_parallel.autotp_size", kNotYet, kOtherParallel, "1"},
      {"sequence_parallel_size", kNotYet, kOtherParallel, "1"},
      {"data_parallel_size", kNoEffect},
      {"expert_parallel", kSwitch, kOtherParallel},
      {"use_data_before_expert_parallelism", kOffOnly, kOtherParallel},
      {"elasticity", kSwitch, "`shoehorn launch --max_restarts N` goes on from the last checkpoint"},
      {"hybrid_engine", kSwitch, "no text is generated while a model trains"},
      // Checkpoints.
      {"checkpoint.tag_validation", kNoEffect},
      {"checkpoint.load_universal", kOffOnly,
       "--resume_from_checkpoint takes a checkpoint of any number of ranks"},
      {"checkpoint.use_node_local_storage", kOffOnly, "output_dir is one directory for all ranks"},
      {"checkpoint.parallel_write.pipeline_stage", kOffOnly, kOtherParallel},
      {"nebula", kSwitch, "checkpoints are files in output_dir"},
      {"datastates", kOffOnly, "checkpoints are files in output_dir"},
      // Measuring and logging.
      {"wall_clock_breakdown", kOffOnly, kTraces},
      {"memory_breakdown", kOffOnly, "`shoehorn anatomy` says what every byte is for"},
      {"dump_state", kOffOnly, "training_args.json in output_dir has all arguments"},
      {"flops_profiler", kSwitch, kTraces},
      {"comms_logger", kSwitch, "`shoehorn plan --world_size N` says what a rank sends"},
      {"timers.throughput.enabled", kNoEffect},
      {"timers.throughput.synchronized", kNoEffect},
      {"tensorboard", kSwitch, kReportFiles},
      {"csv_monitor", kSwitch, kReportFiles},
      {"wandb", kSwitch, kNoService},
      {"comet", kSwitch, kNoService},
      // Methods.
      {"autotuning", kSwitch, "`shoehorn fit` searches the fastest settings that fit"},
      {"compile.deepcompile", kOffOnly, kTorchCompile},
      {"compile.free_activation", kSilent},
      {"compile.free_activation_threshold", kSilent},
      {"compile.offload_activation", kSilent},
      {"compile.offload_opt_states", kSilent},
      {"compile.offload_parameters", kSilent},
      {"compile.double_buffer", kSilent},
      {"compile.symmetric_memory", kSilent},
      {"compile.debug_log", kSilent},
      {"compile.dump_graphs", kSilent},
      {"compile.sync_before_reduce", kSilent},
      {"compile.sync_after_reduce", kSilent},
      {"compile.sync_before_allgather", kSilent},
      {"compile.sync_after_allgather", kSilent},
      {"compile.keep_int_input_tensors", kSilent},
      {"compile.keep_all_input_tensors", kSilent},
      {"compile.passes", kSilent},
      // Of DeepSpeed 0.14.
      {"compile.enabled", kOffOnly, kTorchCompile},
      {"compile.backend", kSilent},
      {"compile.kwargs", kSilent},
      {"sparse_attention", kNotYet, "attention is dense"},
      {"compression_training", kNotYet, "models are not pruned or quantized"},
      {"quantize_training", kSwitch, "models are not pruned or quantized"},
      {"weight_quantization", kNotYet, "models are not pruned or quantized"},
      {"curriculum_learning", kSwitch, "sequences have their own lengths, from the first step on"},
      {"data_efficiency", kSwitch, "samples come in the Trainer's order"},
      {"eigenvalue", kSwitch, kNotOptimizer},
      {"progressive_layer_drop", kSwitch, "all layers run"},
  };
  return all;
}

const Key* find_key(const std::string& path) {
  const auto found =
      std::find_if(keys().begin(), keys().end(), [&](const Key& key) { return key.path == path; });
  return found == keys().end() ? nullptr : &*found;
}

bool is_section(const std::string& path) {
  return std::any_of(keys().begin(), keys().end(),
                     [&](const Key& key) { return key.path.starts_with(path + "."); });
}

bool is_off(const Json& value) {
  return value == "auto" || asks_for_nothing(value);
}

// The nearest of the names that stand beside `name`, or else of all names with the path to it.
std::string nearest_key(const std::string& parent, const std::string& name) {
  std::vector<std::string> siblings, all;
  for (const Key& key : keys()) {
    const std::string path(key.path);
    for (size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1))
      all.push_back(path.substr(0, end));
    all.push_back(path);
    if (path.starts_with(parent))
      siblings.push_back(path.substr(parent.size()).substr(0, path.find('.', parent.size()) - parent.size()));
  }
  const std::string sibling = nearest_name(name, siblings);
  if (!sibling.empty()) return parent + sibling;
  const auto elsewhere = std::find_if(all.begin(), all.end(), [&](const std::string& path) {
    return path.ends_with("." + name) || path == name;
  });
  return elsewhere == all.end() ? std::string() : *elsewhere;
}

class Sorter {
 public:
  Sorter(const std::string& source, DeepspeedKeys& sorted) : source_(source), sorted_(sorted) {}

  // `parent`: the path to the object, with a dot behind it; empty for the file's top.
  void sort(const Json& object, const std::string& parent) {
    for (const auto& [name, value] : object.items()) {
      const std::string path = parent + name;
      const Key* key = find_key(path);
      const bool is_object_of_section = value.is_object() && is_section(path);
      if (key != nullptr && !is_object_of_section) {
        take(*key, path, value);
      } else if (is_object_of_section) {
        sort(value, path + ".");
      } else if (!is_section(path)) {
        refuse_unknown(parent, name, nearest_key(parent, name));
      } else if (!value.is_null()) {
        throw user_error("[{}: {}] expected an object, got {}", source_, path, json_line(value));
      }
    }
  }

 private:
  void take(const Key& key, const std::string& path, const Json& value) {
    switch (key.use) {
      case Use::kRead:
        if (!value.is_null() && value != "auto") sorted_.values[path] = value;
        return;
      case Use::kNoEffect:
        if (!value.is_null() && value != "auto") sorted_.without_effect.push_back(path);
        return;
      case Use::kSilent:
        return;
      case Use::kSwitch:
        take_switch(key, path, value);
        return;
      case Use::kOffOnly:
      case Use::kNotYet:
        if (is_off(value) || (!key.off.empty() && value == Json::parse(key.off))) return;
        refuse(key, path, key.off.empty() ? "no such key, or false" : std::string(key.off), value);
    }
  }

  void take_switch(const Key& key, const std::string& path, const Json& value) {
    if (is_off(value)) return;
    if (!value.is_object())
      throw user_error("[{}: {}] expected an object, got {}", source_, path, json_line(value));
    for (const auto& [name, inner] : value.items()) {
      const std::string nearest = nearest_name(name, {"enabled"});
      if (name != "enabled" && !nearest.empty()) refuse_unknown(path + ".", name, path + "." + nearest);
    }
    const auto enabled = value.find("enabled");
    if (enabled == value.end() || is_off(*enabled)) return;
    refuse(key, path + ".enabled", "false", *enabled);
  }

  [[noreturn]] void refuse_unknown(const std::string& parent, const std::string& name,
                                   const std::string& nearest) const {
    throw user_error("[{}: {}{}] expected a key of DeepSpeed's configuration, got '{}'{}", source_, parent,
                     name, name, did_you_mean(nearest));
  }

  [[noreturn]] void refuse(const Key& key, const std::string& path, const std::string& expected,
                           const Json& value) const {
    const bool may_come = key.use == Use::kNotYet;
    const std::string message =
        fmt::format("[{}: {}] expected {}, got {}; known, but {}: {}", source_, path, expected,
                    json_line(value), may_come ? "not in this version yet" : "refused", key.why);
    if (may_come) throw NotInThisVersion(message);
    throw UserError(message);
  }

  const std::string& source_;
  DeepspeedKeys& sorted_;
};

}  // namespace

DeepspeedKeys sort_deepspeed_keys(const Json& object, const std::string& source) {
  if (!object.is_object())
    throw user_error("[{}] expected a JSON object of DeepSpeed's keys, got {}", source, object.type_name());
  DeepspeedKeys sorted;
  Sorter(source, sorted).sort(object, "");
  return sorted;
}

}  // namespace shoehorn
