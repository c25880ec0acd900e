// Optimizers: their settings, and the state that each keeps for a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "ops/op_builder.h"

namespace shoehorn {

enum class OptimizerKind : uint8_t { kAdamW, kSgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  float weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  float momentum = 0;     // SGD
  bool nesterov = false;  // SGD
};

// The names of the states kept for each element, as torch's optimizers call them: exp_avg, exp_avg_sq,
// momentum_buffer.
std::vector<std::string> optimizer_state_names(const OptimizerOptions& options);

// Whether the Hugging Face Trainer decays a parameter: not those of LayerNorm modules, nor whose name says
// bias or norm.
bool is_decayed(std::string_view parameter_name);

// Appends the update of one weight storage: (weight, gradient, states) -> their next versions. `rest` is the
// 16-bit rest of a split master, invalid for an fp32 weight. States are made on first use, in the weight's
// shape, named
// "<storage>.<state>". `clip_coefficient` may be invalid.
NodeId append_update(OpBuilder& builder, const OptimizerOptions& options, ValueId learning_rate,
                     ValueId applied_updates, ValueId clip_coefficient, StorageId weight, StorageId rest,
                     ValueId gradient);

// One node in the place of many of the same optimizer, tensor after tensor.
NodeId append_joined_update(OpBuilder& builder, const std::vector<NodeId>& updates);

}  // namespace shoehorn
