#include "passes/local_sgd.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ops/ring.h"
#include "passes/collective_nodes.h"

namespace shoehorn {

namespace {

constexpr Region kRegion = {.component = Component::kOptimizer, .phase = Phase::kUpdate};

// A weight that ranks train, and what they average it with.
struct LocalWeight {
  StorageId weight;
  StorageId rest;  // of a split master; invalid: none
  StorageId start;
  StorageId momentum = {};  // invalid: none is kept
  int64_t bytes = 0;        // of an outer gradient
};

StorageId add_beside(StateTable& state, StorageId weight, std::string_view name, Role role) {
  Storage added = state.storage(weight);
  added.name = fmt::format("{}.{}", added.name, name);
  added.type.dtype = DType::kF32;
  added.role = role;
  return state.add_storage(std::move(added));
}

LocalWeight add_local_weight(StateTable& state, StorageId weight, const RankOptions& ranks) {
  const std::vector<ParameterId> parameters = state.parameters_of(weight);
  for (const ParameterId id : parameters) {
    state.parameter(id).own_states =
        Replica{.number = static_cast<int32_t>(ranks.rank), .count = static_cast<int32_t>(ranks.world_size)};
  }
  LocalWeight local{.weight = weight,
                    .rest = state.parameter(parameters.at(0)).rest,
                    .start = add_beside(state, weight, "outer_start", Role::kMasterWeight)};
  if (ranks.outer_momentum != 0)
    local.momentum = add_beside(state, weight, kOuterMomentum, Role::kOptimizerState);
  local.bytes = state.storage(local.start).type.bytes();
  return local;
}

ValueId read(Program& program, StorageId storage) {
  return storage.valid() ? program.read_state(storage) : ValueId{};
}

void append_start(OpBuilder& builder, const LocalWeight& local) {
  Program& program = builder.program();
  const ValueId start =
      builder.value(OpKind::kOuterStart, {read(program, local.weight), read(program, local.rest)}, {},
                    program.state().storage(local.start).name);
  builder.bind_output(start, local.start);
}

// Weights whose outer gradients go around together.
void append_bucket(OpBuilder& builder, const std::vector<LocalWeight>& bucket, const StepOptions& options) {
  Program& program = builder.program();
  const RankOptions& ranks = options.ranks;
  std::vector<RingValue> gradients;
  for (const LocalWeight& local : bucket) {
    const ValueId gradient =
        builder.value(OpKind::kOuterGradient,
                      {read(program, local.start), read(program, local.weight), read(program, local.rest)},
                      {}, program.state().storage(local.weight).name + ".outer_gradient");
    gradients.push_back({gradient, segments_of(program.state(), local.weight, options)});
  }
  int64_t stored = 0;
  for (const RingValue& gradient : gradients) stored += stored_elements(gradient.segments);
  const int64_t chunk = std::min(stored, most_chunk_elements(ranks, RingOf::kAll, DType::kF32));
  const NodeId node = append_collective(builder, OpKind::kAllReduce, gradients, chunk, ranks, RingOf::kAll,
                                        false, "sum_outer_gradients");
  const OuterUpdateAttributes attributes{.ranks = ranks.world_size,
                                         .learning_rate = ranks.outer_learning_rate,
                                         .momentum = ranks.outer_momentum};
  for (size_t i = 0; i < bucket.size(); ++i) {
    const LocalWeight& local = bucket[i];
    builder.add(OpKind::kOuterUpdate,
                {read(program, local.start), read(program, local.weight), program.node(node).outputs[i],
                 read(program, local.rest), read(program, local.momentum)},
                attributes, program.state().storage(local.weight).name + ".outer_update");
  }
}

}  // namespace

void local_sgd(ProgramFamily& family, const StepOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (ranks.local_steps() == 0 || family.gradients.empty()) return;
  std::vector<LocalWeight> locals;
  for (const ParameterGradient& gradient : family.gradients[0])
    locals.push_back(add_local_weight(*family.state, gradient.storage, ranks));

  OpBuilder begin(family.programs.emplace_back(ProgramKind::kAfterLoad, family.state.get()));
  begin.set_region(kRegion);
  for (const LocalWeight& local : locals) append_start(begin, local);

  OpBuilder update(family.programs.emplace_back(ProgramKind::kOuterUpdate, family.state.get()));
  update.set_region(kRegion);
  std::vector<LocalWeight> bucket;
  int64_t bytes = 0;
  for (const LocalWeight& local : locals) {
    if (!bucket.empty() && bytes + local.bytes > ranks.bucket_bytes) {
      append_bucket(update, bucket, options);
      bucket.clear();
      bytes = 0;
    }
    bucket.push_back(local);
    bytes += local.bytes;
  }
  append_bucket(update, bucket, options);
}

void check_local_sgd(const StepOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (ranks.local_steps() == 0) return;
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    return user_error("[--local_sgd_steps {}] expected {}, got {}", ranks.local_sgd_steps, expected, got);
  };
  if (ranks.stage() > 0) {
    throw refuse("--zero_stage 0, since each rank trains a whole model alone",
                 fmt::format("--zero_stage {}", ranks.stage()));
  }
  if (options.precision == Precision::kFloat16) {
    throw refuse("--bf16 or fp32 products", "--fp16, whose loss scale each rank would change alone");
  }
  if (options.master_weights == MasterWeights::kNone) {
    throw refuse("fp32 masters, of which the average is taken", "--master_weights none");
  }
}

}  // namespace shoehorn
