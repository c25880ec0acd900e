// Optimizers: their settings, and the states that each keeps for a parameter.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "ops/op_builder.h"

namespace shoehorn {

struct OptimizerOptions {
  OptimizerSettings settings = AdamWSettings{};
  float weight_decay = 0;
};

// A state that an optimizer keeps for a parameter, named as the implementation that it follows names it:
// exp_avg, exp_avg_sq, momentum_buffer, state1, absmax1, … All start as zero bytes.
struct OptimizerState : ShardedTensor {
  std::string name;
  DType dtype = DType::kF32;
};

// The states of a parameter. Of a shard: a state of each element is cut as the parameter is; the scales of 8-bit
// blocks are those of its blocks; Adafactor's moments of columns, which every row moves, are held whole by each process,
// and written by the owner of the parameter's first element. So are its moments of rows, but of a shard of whole rows
// each process holds those of its own. Of a replica, a state of each replica is one tensor, of which a process has and writes
// its own. InternalError for a shard that cuts 8-bit blocks (see shard_multiple).
std::vector<OptimizerState> optimizer_states(const OptimizerSettings& settings, const Parameter& parameter);

// Runs of a parameter's shards begin at multiples of so many of its elements, and end at one or with the parameter: 8-bit
// blocks stay whole, and for Adafactor a matrix's rows.
int64_t shard_multiple(const OptimizerSettings& settings, const Parameter& parameter);

// Whether a parameter's states are 8-bit codes with a scale for every kStateBlock of its elements. False for
// all optimizers that keep none.
bool keeps_8bit_states(const OptimizerSettings& settings, const Parameter& parameter);

// The place of a parameter's state. The storage "<weight storage>.<state>" holds the states of all parameters
// of a weight storage, one behind the other. An invalid storage means that there is no such state.
struct OptimizerStatePlace {
  StorageId storage;
  int64_t offset_elements = 0;
};
OptimizerStatePlace find_optimizer_state(const StateTable& state, const OptimizerSettings& settings,
                                         const Parameter& parameter, const std::string& name);

// True if the Hugging Face Trainer applies weight decay to a parameter: not to LayerNorm modules, nor to
// names that contain bias or norm.
bool is_decayed(const Parameter& parameter);
// The same by the name alone, which does not tell GPT-2's LayerNorms (ln_1).
bool is_decayed(std::string_view parameter_name);

// What all updates of a step share: inputs in the order of ops/update_layout.h (the last two may be invalid),
// the seed of the random bits that round weights without masters, and the bound to which gradient elements
// are clamped.
struct UpdateInputs {
  ValueId learning_rate;
  ValueId applied_updates;
  ValueId clip_coefficient;
  ValueId found_inf;
  uint64_t seed = 0;
  float max_gradient = std::numeric_limits<float>::infinity();
};

// Storages for the states of the parameters of a weight's storage, made on first use, in the order of
// optimizer_states().
std::vector<StorageId> add_optimizer_states(StateTable& state, const OptimizerSettings& settings,
                                            StorageId weight);

// Appends the update of one weight storage: (weight, gradient, states) -> their next versions. `rest` is the
// 16-bit rest of a split master, invalid for an fp32 weight and for a bf16 one without a master. States are
// made on first use. `sums`: over all processes, of a weight whose update reads_sums(). InternalError for shards that
// cannot be updated: Adafactor's that cut a row of a matrix, and those of several runs without a master, whose random bits
// are drawn for elements in a row.
NodeId append_update(OpBuilder& builder, const OptimizerOptions& options, const UpdateInputs& shared,
                     StorageId weight, StorageId rest, ValueId gradient, ValueId sums = {});

// Whether the update of a weight storage reads sums over whole parameters, of which this process has parts: Adafactor's.
bool reads_sums(const StateTable& state, const OptimizerSettings& settings, StorageId weight);

// Appends the sums of this process's parts, f64 (ops/adafactor_sums.h). What is added up over the processes is what
// append_update reads.
ValueId append_update_sums(OpBuilder& builder, const OptimizerOptions& options, const UpdateInputs& shared,
                           StorageId weight, StorageId rest, ValueId gradient);

// Replaces several update nodes of the same optimizer by one that updates all their tensors.
NodeId append_joined_update(OpBuilder& builder, const std::vector<NodeId>& updates);

}  // namespace shoehorn
