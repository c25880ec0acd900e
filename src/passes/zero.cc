#include "passes/zero.h"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/ring.h"
#include "ops/weight_cast.h"
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

// The storages that become shards: those that are updated; and in stage 3 frozen ones that are not small.
std::vector<StorageId> storages_to_shard(const ProgramFamily& family, const StepOptions& options,
                                         const std::set<StorageId>& trained) {
  const RankOptions& ranks = options.ranks;
  std::vector<StorageId> storages;
  std::set<StorageId> seen;
  for (const Parameter& parameter : family.state->parameters()) {
    const bool is_large =
        family.state->storage(parameter.storage).type.shape.elements() > ranks.zero_persistence_threshold;
    const bool is_sharded = trained.contains(parameter.storage) || (ranks.stage() == 3 && is_large);
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
    const ElementRange own = part_of(cut, options.ranks.place_in_group());
    elements += cut.elements;
    parameter.storage = made.shard;
    parameter.offset_elements = offset;
    parameter.shard = Shard{.slice = Slice::range(own.begin, own.end),
                            .padding = cut.piece - own.size(),
                            .owner = static_cast<int32_t>(options.ranks.place_in_group())};
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
  return std::min(stored, most_chunk_elements(ranks, RingOf::kGroup, dtype));
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
    const NodeId node = append_collective(builder, OpKind::kAllGather, values, chunk, ranks, RingOf::kGroup,
                                          false, "gather_updated");
    for (size_t i = 0; i < shards.size(); ++i)
      builder.bind_output(program.node(node).outputs[i], shards[i]->whole);
  }
}

// A weight as nodes read it: whole, in the type of its shard or in that of the products that read it.
struct GatheredWeight {
  const ShardedStorage* of = nullptr;
  DType dtype = DType::kF32;
  auto operator<=>(const GatheredWeight&) const = default;
};

// Reads of weights that follow each other in one layer, or outside of the layers in one component.
struct WeightRun {
  size_t first = 0;  // node
  int32_t layer = -1;
  Component component = Component::kNone;
  std::map<GatheredWeight, std::vector<std::pair<size_t, size_t>>> reads;  // by node and input
};

// What a weight was gathered to last, and the last run that reads it.
struct WholeWeight {
  ValueId value;
  size_t last_run = 0;
};

// Puts gathers in front of the layers of one program. A weight's cast for products is made of the shard, anew for each
// gather, so that half the bytes go around and no cast lives longer than its layer.
class WeightGatherer {
 public:
  // `kept_casts`: storages of whole casts that are kept for the micro-batches behind the first; found in its program.
  WeightGatherer(Program& program, const ProgramFamily& family, const RankOptions& ranks,
                 std::map<StorageId, GatheredWeight>& kept_casts)
      : program_(program), family_(family), ranks_(ranks), kept_casts_(kept_casts) {}

  // Adds to what all programs gather.
  void find(std::set<GatheredWeight>& gathered) {
    find_weights();
    find_runs();
    for (const WeightRun& run : runs_) {
      for (const auto& [weight, reads] : run.reads) gathered.insert(weight);
    }
  }

  void gather(const std::set<GatheredWeight>& gathered) {
    const size_t old_nodes = program_.nodes().size();
    for (size_t i = 0; i < runs_.size(); ++i) gather_run(i, gathered);
    place_before(program_, old_nodes, made_);
    drop_whole_casts();
  }

 private:
  void find_weights() {
    for (const ShardedStorage& shard : family_.shards) {
      if (!shard.is_kept) weight_of_storage_[shard.whole] = {&shard, shard.whole_type.dtype};
    }
    weight_of_storage_.insert(kept_casts_.begin(), kept_casts_.end());
    for (const Node& node : program_.nodes()) {
      if (!is_weight_cast(program_, node)) continue;
      const std::optional<GatheredWeight> weight = weight_of(node.inputs[0]);
      if (!weight) continue;
      const Value& cast = program_.value(node.outputs[0]);
      const GatheredWeight as_cast = {weight->of, cast.type.dtype};
      weight_of_cast_[node.outputs[0]] = as_cast;
      if (cast.storage.valid()) kept_casts_[cast.storage] = as_cast;
    }
  }

  std::optional<GatheredWeight> weight_of(ValueId value) const {
    if (const auto cast = weight_of_cast_.find(value); cast != weight_of_cast_.end()) return cast->second;
    const auto stored = weight_of_storage_.find(program_.value(value).storage);
    return stored == weight_of_storage_.end() ? std::nullopt : std::optional(stored->second);
  }

  bool is_whole_cast(const Node& node) const {
    return node.outputs.size() == 1 && weight_of_cast_.contains(node.outputs[0]);
  }

  void find_runs() {
    for (size_t at = 0; at < program_.nodes().size(); ++at) {
      const Node& node = program_.nodes()[at];
      if (is_whole_cast(node)) continue;
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        if (!node.inputs[input].valid()) continue;
        if (const auto weight = weight_of(node.inputs[input]))
          run_of(at, node.region).reads[*weight].emplace_back(at, input);
      }
    }
  }

  WeightRun& run_of(size_t at, const Region& region) {
    const Component component = region.layer < 0 ? region.component : Component::kNone;
    if (runs_.empty() || runs_.back().layer != region.layer || runs_.back().component != component)
      runs_.push_back({.first = at, .layer = region.layer, .component = component, .reads = {}});
    return runs_.back();
  }

  // Whether a weight is whole still: it would be gathered again as soon as it were freed, or before.
  bool stays_whole(const GatheredWeight& weight, size_t run) const {
    const auto known = whole_.find(weight);
    return known != whole_.end() && run - known->second.last_run <= ahead() + 1;
  }
  size_t ahead() const { return static_cast<size_t>(ranks_.zero_prefetch_layers); }

  void gather_run(size_t index, const std::set<GatheredWeight>& gathered) {
    const WeightRun& run = runs_[index];
    const size_t before = runs_[index - std::min(index, ahead())].first;
    std::map<DType, std::vector<const ShardedStorage*>> by_type;
    for (const ShardedStorage& shard : family_.shards) {
      for (const auto& [weight, reads] : run.reads) {
        if (weight.of == &shard && !stays_whole(weight, index)) by_type[weight.dtype].push_back(&shard);
      }
    }
    OpBuilder builder(program_);
    builder.set_region(program_.nodes()[run.first].region);
    std::vector<NodeId>& made = made_[NodeId{static_cast<int32_t>(before)}];
    for (const auto& [dtype, shards] : by_type) {
      std::vector<RingValue> values;
      for (const ShardedStorage* shard : shards) {
        const ValueId part = shard_as(builder, *shard, dtype, made);
        values.push_back({part, shard->segments, {dtype, shard->whole_type.shape}});
      }
      const NodeId node =
          append_collective(builder, OpKind::kAllGather, values, chunk_elements(gathered, dtype), ranks_,
                            RingOf::kGroup, true, "gather_weights");
      made.push_back(node);
      for (size_t i = 0; i < shards.size(); ++i) {
        const ValueId whole = program_.node(node).outputs[i];
        program_.value(whole).role = Role::kWeight;
        program_.value(whole).name = family_.state->storage(shards[i]->whole).name;
        whole_[{shards[i], dtype}].value = whole;
      }
    }
    for (const auto& [weight, reads] : run.reads) {
      WholeWeight& whole = whole_.at(weight);
      whole.last_run = index;
      for (const auto& [at, input] : reads) program_.nodes()[at].inputs[input] = whole.value;
    }
  }

  ValueId shard_as(OpBuilder& builder, const ShardedStorage& shard, DType dtype, std::vector<NodeId>& made) {
    const ValueId stored = program_.read_state(shard.shard);
    if (program_.type(stored).dtype == dtype) return stored;
    const std::string name =
        fmt::format("{}.{}", family_.state->storage(shard.shard).name, dtype_name(dtype));
    made.push_back(builder.add(OpKind::kCast, {stored}, CastAttributes{dtype}, name));
    return program_.node(made.back()).outputs[0];
  }

  // Of all programs, for they share a buffer.
  int64_t chunk_elements(const std::set<GatheredWeight>& gathered, DType dtype) const {
    std::vector<const ShardedStorage*> shards;
    for (const GatheredWeight& weight : gathered) {
      if (weight.dtype == dtype) shards.push_back(weight.of);
    }
    return chunk_elements_of(shards, dtype, ranks_);
  }

  void drop_whole_casts() {
    if (weight_of_cast_.empty()) return;
    std::vector<NodeId> order;
    for (size_t i = 0; i < program_.nodes().size(); ++i) {
      if (!is_whole_cast(program_.nodes()[i])) order.push_back(NodeId{static_cast<int32_t>(i)});
    }
    for (const auto& [cast, weight] : weight_of_cast_) program_.unset_version(cast);
    program_.reorder(order);
  }

  Program& program_;
  const ProgramFamily& family_;
  const RankOptions& ranks_;
  std::map<StorageId, GatheredWeight>& kept_casts_;
  std::map<StorageId, GatheredWeight> weight_of_storage_;
  std::map<ValueId, GatheredWeight> weight_of_cast_;
  std::vector<WeightRun> runs_;
  std::map<GatheredWeight, WholeWeight> whole_;
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
  for (const StorageId whole : storages_to_shard(family, options, trained))
    shard_storage(family, whole, trained.contains(whole), options);
  const bool is_split_by_micro_batch =
      options.gradient_accumulation_steps > 1 && options.accumulation_order == AccumulationOrder::kMicroBatch;
  if (options.ranks.stage() == 1 || !is_split_by_micro_batch || !family.shards_what_is_trained()) return;
  for (const ProgramId step : family.all(ProgramKind::kTrainStep))
    scatter_gradients(family, family.program(step), options, false);
}

void gather_weights(ProgramFamily& family, const StepOptions& options) {
  std::map<StorageId, GatheredWeight> kept_casts;
  std::set<GatheredWeight> gathered;
  std::vector<WeightGatherer> gatherers;
  for (Program& program : family.programs) {
    gatherers.emplace_back(program, family, options.ranks, kept_casts);
    gatherers.back().find(gathered);
  }
  for (WeightGatherer& gatherer : gatherers) gatherer.gather(gathered);
  for (const ShardedStorage& shard : family.shards) {
    if (!shard.is_kept) family.state->storage(shard.whole).type.shape = Shape({0});
  }
  for (const auto& [storage, weight] : kept_casts) family.state->storage(storage).type.shape = Shape({0});
}

void check_zero(const StepOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (ranks.stage() == 0 || ranks.zero_group_size == 0) return;
  if (ranks.zero_group_size < 1 || ranks.world_size % ranks.zero_group_size != 0) {
    throw user_error(
        "[--zero_group_size {}] expected a number that divides the {} ranks, so that all groups have as many; give one that "
        "does, or none: then all ranks share",
        ranks.zero_group_size, ranks.world_size);
  }
}

void gather_updated(ProgramFamily& family, const StepOptions& options) {
  const bool keeps_any = std::any_of(family.shards.begin(), family.shards.end(),
                                     [](const ShardedStorage& shard) { return shard.is_kept; });
  if (!keeps_any) return;
  for (Program& program : family.programs) {
    if (program.traits().updates) gather_kept(program, family, options.ranks);
  }
  Program& loaded = family.programs.emplace_back(ProgramKind::kAfterLoad, family.state.get());
  gather_kept(loaded, family, options.ranks);
}

}  // namespace shoehorn
