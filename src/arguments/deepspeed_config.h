// --deepspeed ds_config.json: DeepSpeed's configuration as transformers' Trainer takes it, for one rank or several.
//
//   train_micro_batch_size_per_gpu, gradient_accumulation_steps   the flags of the Trainer; of these two and
//   train_batch_size                                              this one, which is of all ranks, each follows from two
//   gradient_clipping                                             --max_grad_norm
//   fp16, bf16                                                    --fp16 and the loss scale's flags, --bf16
//   optimizer, scheduler                                          --optim, --lr_scheduler_type and what they take
//   zero_optimization.stage, .reduce_bucket_size                  --zero_stage, --ddp_bucket_cap_mb
//
// "auto" leaves a setting to the flags, and so does a key that is not there; of fp16 the file's standard values are
// DeepSpeed's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "arguments/deepspeed_keys.h"
#include "arguments/neighbour_configs.h"

namespace shoehorn {

struct DeepspeedConfig {
  std::string source;  // the file, for messages
  DeepspeedKeys keys;
};

// UserError as sort_deepspeed_keys(), and before that for an optimizer or scheduler that is unknown or not here.
DeepspeedConfig read_deepspeed_config(const nlohmann::json& object, const std::string& source);

// Sets the arguments that the file says. UserError for a value that is out of range or of a wrong kind, and for all mismatches
// with flags that are given.
NeighbourSettings apply_deepspeed_config(const DeepspeedConfig& config, TrainingArguments& args,
                                         const IsGiven& is_given);

}  // namespace shoehorn
