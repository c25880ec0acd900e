#include "passes/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "ops/op_builder.h"
#include "ops/op_info.h"
#include "ops/weight_cast.h"
#include "passes/place_nodes.h"
#include "passes/recompute_set.h"

namespace shoehorn {

namespace {

// Adds nodes that stand for a forward node in the backward.
OpBuilder builder_of_clones(Program& program, const Node& original) {
  OpBuilder builder(program);
  Region region = original.region;
  region.phase = Phase::kRecompute;
  builder.set_region(region);
  return builder;
}

// Clones forward nodes of one set for readers in the backward.
class Cloner {
 public:
  // `members`: the nodes that may be cloned. A value that a node outside the set and its backward reads stays
  // as it is.
  Cloner(Program& program, std::vector<bool> members) : program_(program), members_(std::move(members)) {}

  // The clone of a value, with all it needs; the value itself where it is not of the set.
  ValueId clone(ValueId id) {
    const NodeId producer = program_.value(id).producer;
    if (!producer.valid() || !members_[producer.at()]) return id;
    if (const auto found = clones_.find(id); found != clones_.end()) return found->second;
    const Node original = program_.node(producer);
    std::vector<ValueId> inputs;
    for (const ValueId input : original.inputs) inputs.push_back(input.valid() ? clone(input) : input);
    OpBuilder builder = builder_of_clones(program_, original);
    const NodeId copy = builder.add(original.kind, std::move(inputs), original.attributes,
                                    program_.value(original.outputs[0]).name + ".again");
    program_.node(copy).clone_of = producer;
    for (size_t i = 0; i < original.outputs.size(); ++i)
      clones_[original.outputs[i]] = program_.node(copy).outputs[i];
    made_.push_back(copy);
    return clones_.at(id);
  }

  const std::vector<NodeId>& made() const { return made_; }

 private:
  Program& program_;
  std::vector<bool> members_;
  std::map<ValueId, ValueId> clones_;
  std::vector<NodeId> made_;
};

// Makes values of the forward again from what the backward reads: where the op table says how, and those of the
// recompute set by the nodes that made them.
class Remaker {
 public:
  // `dropped`: the nodes of the set.
  Remaker(Program& program, std::vector<bool> dropped, const StepOptions& options)
      : program_(program),
        dropped_(std::move(dropped)),
        options_(options),
        readers_(program.readers()),
        nodes_(program.nodes().size()) {}

  // The value made again by nodes at the program's end; invalid where nothing makes it, or where it would be
  // made from what had to be kept for its sake alone.
  ValueId again(ValueId id) {
    if (!id.valid() || !program_.value(id).producer.valid()) return {};
    if (const auto found = again_.find(id); found != again_.end()) return found->second;
    return again_[id] = make(id, program_.value(id).producer);
  }

  // Appends to `here` the nodes that make a value that again() gave, but for those that have a place.
  void place(ValueId id, std::vector<NodeId>& here) {
    const NodeId maker = program_.value(id).producer;
    if (!maker.valid() || maker.at() < nodes_ || !placed_.insert(maker).second) return;
    for (const ValueId input : program_.node(maker).inputs) {
      if (input.valid()) place(input, here);
    }
    here.push_back(maker);
  }

 private:
  // Whether ranks, which keep parts of a weight alone, would gather it once more for the sake of a node that runs again: outside of
  // the layers, whose backward gathers theirs anyway. Layer by layer one gather serves all micro-batches, whose outputs would all
  // have to be kept for it.
  bool takes_another_gather(const Node& node) const {
    return options_.ranks.stage() == 3 && options_.micro_batches_together() == 1 && node.region.layer < 0 &&
           std::any_of(
               node.inputs.begin(), node.inputs.end(),
               [this](ValueId input) { return input.valid() && is_gathered(input); });
  }

  bool is_gathered(ValueId input) const {
    const NodeId producer = program_.value(input).producer;
    const ValueId weight = is_weight_cast(program_, input) ? program_.node(producer).inputs[0] : input;
    const StorageId storage = program_.value(weight).storage;
    return storage.valid() && !program_.state().parameters_of(storage).empty() &&
           program_.type(weight).shape.elements() > options_.ranks.zero_persistence_threshold;
  }

  ValueId make(ValueId id, NodeId producer) {
    const Node original = program_.node(producer);
    if (original.region.phase != Phase::kForward) return {};
    if (dropped_[producer.at()]) return clone(id, producer);
    if (original.kind == OpKind::kView && again(original.inputs[0]).valid()) return clone(id, producer);
    if (id != original.outputs[0] || takes_another_gather(original)) return {};
    OpBuilder builder = builder_of_clones(program_, original);
    for (const auto recompute : op_info(original.kind).recompute) {
      const ValueId made = recompute(builder, original);
      const NodeId maker = program_.value(made).producer;
      program_.node(maker).clone_of = producer;
      if (has_sources(maker)) return made;  // else it stays without a place, and is dropped
    }
    return {};
  }

  // Runs a node again, and those before it back to what is kept.
  ValueId clone(ValueId id, NodeId producer) {
    const Node original = program_.node(producer);
    std::vector<ValueId> inputs;
    for (const ValueId input : original.inputs) inputs.push_back(source_of_clone(input));
    const NodeId copy = builder_of_clones(program_, original)
                            .add(original.kind, std::move(inputs), original.attributes,
                                 program_.value(original.outputs[0]).name + ".again");
    program_.node(copy).clone_of = producer;
    for (size_t i = 0; i < original.outputs.size(); ++i)
      again_[original.outputs[i]] = program_.node(copy).outputs[i];
    return again_.at(id);
  }

  ValueId source_of_clone(ValueId input) {
    if (!input.valid()) return input;
    if (const ValueId made = again(input); made.valid()) return made;
    if (is_kept(input) || is_weight_cast(program_, input)) return input;
    return clone(input, program_.value(input).producer);
  }

  // Whether the backward has what a node reads; what is made again for it becomes its input.
  bool has_sources(NodeId maker) {
    for (size_t i = 0; i < program_.node(maker).inputs.size(); ++i) {
      const ValueId source = program_.node(maker).inputs[i];
      if (!source.valid()) continue;
      if (const ValueId source_again = again(source); source_again.valid())
        program_.node(maker).inputs[i] = source_again;
      else if (!is_kept(source))
        return false;
    }
    return true;
  }

  // Whether a value that again() does not give is there in the backward anyway.
  bool is_kept(ValueId id) const {
    const NodeId producer = program_.value(id).producer;
    if (!producer.valid()) return true;
    const std::span<const NodeId> list = readers_[id.at()];
    return std::any_of(list.begin(), list.end(),
                       [&](NodeId reader) { return program_.node(reader).region.phase != Phase::kForward; });
  }

  Program& program_;
  std::vector<bool> dropped_;
  const StepOptions& options_;
  Readers readers_;  // before anything is made again
  size_t nodes_;
  std::map<ValueId, ValueId> again_;
  std::set<NodeId> placed_;
};

// Whether a value is read in the forward by a node that is not of its own group: it lives on until then in
// any case.
bool leaves_group(const Program& program, std::span<const NodeId> readers, const std::vector<bool>& group) {
  return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return program.node(reader).region.phase == Phase::kForward && !group[reader.at()];
  });
}

int64_t last_layer_of(const Program& program) {
  int64_t last = -1;
  for (const Node& node : program.nodes()) last = std::max<int64_t>(last, node.region.layer);
  return last;
}

}  // namespace

int64_t layers_of_a_group(const Program& program, const StepOptions& options) {
  if (options.recompute_every_n_layers != kRootOfLayers) return options.recompute_every_n_layers;
  const auto layers = static_cast<double>(last_layer_of(program) + 1);
  return std::max<int64_t>(1, std::llround(std::sqrt(layers)));
}

namespace {

int64_t group_of(const Node& node, int64_t every_n_layers) {
  return node.region.layer < 0 ? int64_t{-1} : node.region.layer / every_n_layers;
}

// The nodes of a group that are to run again. A node whose outputs are alive in the backward anyway needs no clone.
std::vector<bool> recomputed_of_group(const Program& program, const Readers& readers, int64_t group,
                                      int64_t every_n_layers) {
  const size_t nodes = program.nodes().size();
  std::vector<bool> members(nodes, false);
  for (size_t i = 0; i < nodes; ++i) {
    const Node& node = program.nodes()[i];
    if (group_of(node, every_n_layers) == group && node.region.phase == Phase::kForward)
      members[i] = !is_weight_cast(program, node);
  }
  std::vector<bool> recomputed = members;
  for (size_t i = 0; i < nodes; ++i) {
    if (!members[i]) continue;
    for (const ValueId output : program.nodes()[i].outputs) {
      if (leaves_group(program, readers[output.at()], members)) recomputed[i] = false;
    }
  }
  return recomputed;
}

void recompute_groups(Program& program, const StepOptions& options) {
  const int64_t every = layers_of_a_group(program, options);
  if (every <= 0) return;
  const size_t nodes = program.nodes().size();
  const int64_t last_group = last_layer_of(program) / every;
  const Readers readers = program.readers();  // of the forward, which clones do not change

  NewNodes before;
  for (int64_t group = 0; group < last_group; ++group) {
    NodeId first_backward;
    for (size_t i = 0; i < nodes && !first_backward.valid(); ++i) {
      const Node& node = program.nodes()[i];
      if (group_of(node, every) == group && node.region.phase != Phase::kForward)
        first_backward = NodeId{static_cast<int32_t>(i)};
    }
    if (!first_backward.valid()) continue;
    const std::vector<bool> cloned = recomputed_of_group(program, readers, group, every);
    Cloner cloner(program, cloned);
    for (size_t i = 0; i < nodes; ++i) {
      if (program.nodes()[i].region.phase != Phase::kBackward) continue;
      for (size_t input = 0; input < program.nodes()[i].inputs.size(); ++input) {
        const ValueId value = program.nodes()[i].inputs[input];
        if (!value.valid()) continue;
        const NodeId producer = program.value(value).producer;
        if (!producer.valid() || producer.at() >= nodes || !cloned[producer.at()]) continue;
        const ValueId clone = cloner.clone(value);
        program.nodes()[i].inputs[input] = clone;
      }
    }
    before[first_backward] = cloner.made();
  }
  place_before(program, nodes, before);
}

}  // namespace

void make_values_again(Program& program, const std::set<std::string>& recompute_set,
                       const StepOptions& options) {
  const size_t nodes = program.nodes().size();
  Remaker remaker(program, nodes_of_set(program, recompute_set), options);
  NewNodes before;
  for (size_t i = 0; i < nodes; ++i) {
    if (program.nodes()[i].region.phase == Phase::kForward) continue;
    const NodeId reader{static_cast<int32_t>(i)};
    for (size_t input = 0; input < program.node(reader).inputs.size(); ++input) {
      const ValueId again = remaker.again(program.node(reader).inputs[input]);
      if (!again.valid()) continue;
      program.node(reader).inputs[input] = again;
      remaker.place(again, before[reader]);
    }
  }
  place_before(program, nodes, before);
}

std::set<std::string> recompute_set_of_groups(const Program& program, int64_t every_n_layers) {
  const Readers readers = program.readers();
  std::vector<bool> recomputed(program.nodes().size(), false);
  for (int64_t group = 0; group < last_layer_of(program) / every_n_layers; ++group) {
    const std::vector<bool> of_group = recomputed_of_group(program, readers, group, every_n_layers);
    for (size_t i = 0; i < recomputed.size(); ++i) recomputed[i] = recomputed[i] || of_group[i];
  }
  const std::vector<std::string> names = forward_names(program);
  std::set<std::string> set;
  for (const NodeId node : nodes_read_later(program)) {
    if (recomputed[node.at()]) set.insert(names[node.at()]);
  }
  return set;
}

void recompute(ProgramFamily& family, const StepOptions& options) {
  for (const ProgramId step : family.all(ProgramKind::kTrainStep))
    recompute_groups(family.program(step), options);
}

void rematerialize(ProgramFamily& family, const StepOptions& options) {
  for (const ProgramId step : family.all(ProgramKind::kTrainStep))
    make_values_again(family.program(step), options.recompute_set, options);
}

}  // namespace shoehorn
