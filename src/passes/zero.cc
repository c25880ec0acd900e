#include "passes/zero.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/ring.h"
#include "passes/collective_nodes.h"
#include "passes/data_parallel.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

std::set<StorageId> trained_storages(const ProgramFamily& family) {
  std::set<StorageId> trained;
  for (const std::vector<ParameterGradient>& gradients : family.gradients) {
    for (const ParameterGradient& gradient : gradients) trained.insert(gradient.storage);
  }
  return trained;
}

// The storages that become shards: those that are updated, unless they are adapters and what is saved with them,
// which are small; and in stage 3 frozen ones that are not small.
std::vector<StorageId> storages_to_shard(const ProgramFamily& family, const RankOptions& ranks,
                                         const std::set<StorageId>& trained) {
  std::vector<StorageId> storages;
  std::set<StorageId> seen;
  for (const Parameter& parameter : family.state->parameters()) {
    const bool is_large =
        family.state->storage(parameter.storage).type.shape.elements() > ranks.zero_persistence_threshold;
    const bool is_sharded =
        trained.contains(parameter.storage) ? family.adapters.empty() : ranks.stage() == 3 && is_large;
    if (is_sharded && seen.insert(parameter.storage).second) storages.push_back(parameter.storage);
  }
  return storages;
}

// The parameters of a storage move to a new one of their parts, which takes its name.
void shard_storage(ProgramFamily& family, StorageId whole, bool is_trained, const StepOptions& options) {
  StateTable& state = *family.state;
  ShardedStorage made;
  made.whole = whole;
  made.is_trained = is_trained;
  made.whole_type = state.storage(whole).type;
  made.segments = segments_of(state, whole, options);
  made.is_kept = options.ranks.stage() < 3 ||
                 made.whole_type.shape.elements() <= options.ranks.zero_persistence_threshold;
  const Shape stored = {stored_elements(made.segments)};
  Storage shard = state.storage(whole);
  shard.type.shape = stored;
  if (made.is_kept) shard.role = Role::kMasterWeight;
  state.storage(whole).name += ".gathered";
  state.storage(whole).role = Role::kWeight;
  made.shard = state.add_storage(std::move(shard));
  int64_t offset = 0, elements = 0;
  size_t segment = 0;
  for (const ParameterId id : state.parameters_of(whole)) {
    Parameter& parameter = state.parameter(id);
    CHECK(parameter.offset_elements == elements && !parameter.is_sharded(),
          "{} does not follow the parameter before it", parameter.name);
    const RingSegment& cut = made.segments.at(segment++);
    const ElementRange own = part_of(cut, options.ranks.rank);
    elements += cut.elements;
    parameter.storage = made.shard;
    parameter.offset_elements = offset;
    parameter.shard = Shard{.slice = Slice::range(own.begin, own.end),
                            .padding = cut.piece - own.size(),
                            .owner = static_cast<int32_t>(options.ranks.rank)};
    if (parameter.rest.valid()) state.storage(parameter.rest).type.shape = stored;
    offset += cut.piece;
  }
  CHECK(elements == made.whole_type.shape.elements(), "'{}' has more than parameters",
        state.storage(whole).name);
  family.shards.push_back(std::move(made));
}

RingValue gathered_value(ValueId shard, const ShardedStorage& of) {
  return {shard, of.segments, of.whole_type};
}

// By element type, which a message has one of.
using ByType = std::map<DType, std::vector<const ShardedStorage*>>;

int64_t chunk_elements_of(const std::vector<const ShardedStorage*>& shards, DType dtype,
                          const RankOptions& ranks) {
  int64_t stored = 0;
  for (const ShardedStorage* shard : shards) stored += stored_elements(shard->segments);
  return std::min(stored, most_chunk_elements(ranks, dtype));
}

// The newest version of each storage that a program's nodes make.
std::map<StorageId, ValueId> newest_versions(const Program& program) {
  std::map<StorageId, ValueId> newest;
  for (const Node& node : program.nodes()) {
    for (const ValueId output : node.outputs) {
      if (program.value(output).storage.valid()) newest[program.value(output).storage] = output;
    }
  }
  return newest;
}

void gather_kept(Program& program, const ProgramFamily& family, const RankOptions& ranks) {
  ByType kept;
  for (const ShardedStorage& shard : family.shards) {
    if (shard.is_kept) kept[shard.whole_type.dtype].push_back(&shard);
  }
  const std::map<StorageId, ValueId> newest = newest_versions(program);
  OpBuilder builder(program);
  builder.set_region({.component = Component::kOptimizer, .phase = Phase::kUpdate});
  for (const auto& [dtype, shards] : kept) {
    std::vector<RingValue> values;
    for (const ShardedStorage* shard : shards) {
      const auto updated = newest.find(shard->shard);
      const ValueId value = updated == newest.end() ? program.read_state(shard->shard) : updated->second;
      values.push_back(gathered_value(value, *shard));
    }
    const int64_t chunk = chunk_elements_of(shards, dtype, ranks);
    const NodeId node =
        append_collective(builder, OpKind::kAllGather, values, chunk, ranks, false, "gather_updated");
    for (size_t i = 0; i < shards.size(); ++i)
      builder.bind_output(program.node(node).outputs[i], shards[i]->whole);
  }
}

// Reads of weights that follow each other in one layer, or outside of the layers in one component.
struct WeightRun {
  size_t first = 0;  // node
  int32_t layer = -1;
  Component component = Component::kNone;
  std::map<const ShardedStorage*, std::vector<std::pair<size_t, size_t>>> reads;  // by node and input
};

// Puts gathers in front of the layers of one program.
class WeightGatherer {
 public:
  WeightGatherer(Program& program, const ProgramFamily& family, const RankOptions& ranks)
      : program_(program), family_(family), ranks_(ranks) {}

  void run() {
    find_runs();
    const size_t old_nodes = program_.nodes().size();
    for (size_t i = 0; i < runs_.size(); ++i) {
      const auto ahead = static_cast<size_t>(ranks_.zero_prefetch_layers);
      gather(runs_[i], runs_[i - std::min(i, ahead)].first);
    }
    place_before(program_, old_nodes, made_);
  }

 private:
  void find_runs() {
    std::map<StorageId, const ShardedStorage*> gathered;
    for (const ShardedStorage& shard : family_.shards) {
      if (!shard.is_kept) gathered[shard.whole] = &shard;
    }
    for (size_t at = 0; at < program_.nodes().size(); ++at) {
      const Node& node = program_.nodes()[at];
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        if (!node.inputs[input].valid()) continue;
        const auto found = gathered.find(program_.value(node.inputs[input]).storage);
        if (found == gathered.end()) continue;
        run_of(at, node.region).reads[found->second].emplace_back(at, input);
      }
    }
  }

  WeightRun& run_of(size_t at, const Region& region) {
    const Component component = region.layer < 0 ? region.component : Component::kNone;
    if (runs_.empty() || runs_.back().layer != region.layer || runs_.back().component != component)
      runs_.push_back({.first = at, .layer = region.layer, .component = component, .reads = {}});
    return runs_.back();
  }

  void gather(const WeightRun& run, size_t before) {
    ByType by_type;
    for (const ShardedStorage& shard : family_.shards) {
      if (run.reads.contains(&shard)) by_type[shard.whole_type.dtype].push_back(&shard);
    }
    OpBuilder builder(program_);
    builder.set_region(program_.nodes()[run.first].region);
    for (const auto& [dtype, shards] : by_type) {
      std::vector<RingValue> values;
      for (const ShardedStorage* shard : shards)
        values.push_back(gathered_value(program_.read_state(shard->shard), *shard));
      const NodeId node = append_collective(builder, OpKind::kAllGather, values, chunk_elements(dtype),
                                            ranks_, true, "gather_weights");
      made_[NodeId{static_cast<int32_t>(before)}].push_back(node);
      for (size_t i = 0; i < shards.size(); ++i) {
        const ValueId whole = program_.node(node).outputs[i];
        program_.value(whole).role = Role::kWeight;
        program_.value(whole).name = family_.state->storage(shards[i]->whole).name;
        for (const auto& [at, input] : run.reads.at(shards[i])) program_.nodes()[at].inputs[input] = whole;
      }
    }
  }

  // Of all programs, for they share a buffer.
  int64_t chunk_elements(DType dtype) const {
    std::vector<const ShardedStorage*> shards;
    for (const ShardedStorage& shard : family_.shards) {
      if (!shard.is_kept && shard.whole_type.dtype == dtype) shards.push_back(&shard);
    }
    return chunk_elements_of(shards, dtype, ranks_);
  }

  Program& program_;
  const ProgramFamily& family_;
  const RankOptions& ranks_;
  std::vector<WeightRun> runs_;
  NewNodes made_;
};

}  // namespace

const ShardedStorage* find_shard(const ProgramFamily& family, StorageId whole) {
  const auto found = std::find_if(family.shards.begin(), family.shards.end(),
                                  [whole](const ShardedStorage& shard) { return shard.whole == whole; });
  return found == family.shards.end() ? nullptr : &*found;
}

bool has_scattered_gradients(const ProgramFamily& family) {
  return std::any_of(family.shards.begin(), family.shards.end(), [&](const ShardedStorage& shard) {
    return shard.shard == family.gradients.at(0).at(0).storage;
  });
}

void shard_weights(ProgramFamily& family, const StepOptions& options) {
  if (options.ranks.stage() == 0 || !family.find(ProgramKind::kTrainStep).valid()) return;
  const std::set<StorageId> trained = trained_storages(family);
  for (const StorageId whole : storages_to_shard(family, options.ranks, trained))
    shard_storage(family, whole, trained.contains(whole), options);
  const bool is_split_by_micro_batch =
      options.gradient_accumulation_steps > 1 && options.accumulation_order == AccumulationOrder::kMicroBatch;
  if (options.ranks.stage() == 1 || !is_split_by_micro_batch || !family.shards_what_is_trained()) return;
  for (const ProgramId step : family.all(ProgramKind::kTrainStep))
    scatter_gradients(family, family.program(step), options);
}

void gather_weights(ProgramFamily& family, const StepOptions& options) {
  for (Program& program : family.programs) WeightGatherer(program, family, options.ranks).run();
  for (const ShardedStorage& shard : family.shards) {
    if (!shard.is_kept) family.state->storage(shard.whole).type.shape = Shape({0});
  }
}

void gather_updated(ProgramFamily& family, const StepOptions& options) {
  const bool keeps_any = std::any_of(family.shards.begin(), family.shards.end(),
                                     [](const ShardedStorage& shard) { return shard.is_kept; });
  if (!keeps_any) return;
  for (Program& program : family.programs) {
    if (program.traits().updates) gather_kept(program, family, options.ranks);
  }
  Program& loaded = family.programs.emplace_back(ProgramKind::kGatherWeights, family.state.get());
  gather_kept(loaded, family, options.ranks);
}

void check_zero(const StepOptions& options) {
  const int64_t stage = options.ranks.stage();
  if (stage == 0) return;
  if (options.lora.rank > 0 && stage < 3) {
    throw user_error(
        "[--zero_stage {}] expected 0 or 3 with --lora_rank, got {}: adapters are small, so that each rank has "
        "them and their states whole; stage 3 shares the frozen weights",
        stage, stage);
  }
  if (options.lora.rank == 0 && std::holds_alternative<AdafactorSettings>(options.optimizer.settings)) {
    throw user_error(
        "[--zero_stage {}] expected an optimizer whose update is each element's own, got adafactor, whose "
        "moments are of whole rows and columns; give --zero_stage 0",
        stage);
  }
  if (stage == 3 && options.precision == Precision::kFloat16) {
    throw user_error(
        "[--zero_stage 3] expected --bf16 or float32, got --fp16, whose casts of all weights live as long as "
        "the step; give --zero_stage 2 or --bf16");
  }
}

}  // namespace shoehorn
