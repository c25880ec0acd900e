// --fsdp and --fsdp_config: PyTorch's fully sharded data parallel, as transformers' Trainer takes it, said as stages of ZeRO.
//
//   --fsdp true, with reshard_after_forward true (the standard)   --zero_stage 3: weights are gathered layer by layer
//   --fsdp true, with reshard_after_forward false                 --zero_stage 2: gradients and states are sharded
//   --fsdp full_shard, shard_grad_op, no_shard (FSDP 1's words)   --zero_stage 3, 2, 0
//   hybrid_shard, hybrid_shard_zero2                              --zero_stage 3, 2 with --zero_group_size 0: within a host
//   offload                                                       not in this version
//   fsdp_config's activation_checkpointing                        --gradient_checkpointing
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arguments/neighbour_configs.h"

namespace shoehorn {

struct FsdpConfig {
  std::string source;  // the flag or file, for messages
  std::string stage_key = "--fsdp";
  int zero_stage = 3;
  bool is_hybrid = false;  // within groups of ranks, by itself those of a host
  bool activation_checkpointing = false;
  std::vector<std::string> without_effect;  // keys
};

// `words`: the value of --fsdp, its words apart by spaces or commas; `object`: fsdp_config, whose keys may begin with
// "fsdp_". UserError "[`source`: key] …" for a word or key that is unknown, of a wrong kind, or refused; NotInThisVersion
// where it asks for what is not built.
FsdpConfig read_fsdp_config(const std::string& words, const nlohmann::json& object,
                            const std::string& source);

// UserError that names the mismatches with flags that are given.
NeighbourSettings apply_fsdp_config(const FsdpConfig& config, TrainingArguments& args,
                                    const IsGiven& is_given);

}  // namespace shoehorn
