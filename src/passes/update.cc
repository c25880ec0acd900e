#include "passes/update.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/op_builder.h"
#include "ops/ring.h"
#include "ops/update_layout.h"
#include "passes/collective_nodes.h"

namespace shoehorn {

namespace {

// The programs that update: steps, a bucket each, or a program of its own. None in an evaluation run.
std::vector<Program*> updating_programs(ProgramFamily& family) {
  std::vector<Program*> programs;
  for (Program& program : family.programs) {
    if (program.traits().updates) programs.push_back(&program);
  }
  return programs;
}

const std::vector<ParameterGradient>& gradients_of(const ProgramFamily& family, const Program& program) {
  return family.gradients[static_cast<size_t>(program.bucket())];
}

StorageId rest_of(const StateTable& state, StorageId weight) {
  const auto parameters = state.parameters_of(weight);
  return state.parameter(parameters.at(0)).rest;
}

// What all updates of a step read: the factor of the gradients and the predicate; invalid: none.
struct StepScalars {
  ValueId coefficient;
  ValueId found_inf;
};

// Of what each rank has a part of.
ValueId sum_over_ranks(OpBuilder& builder, ValueId squares, const RankOptions& ranks) {
  const std::vector<RingSegment> one = {ring_segment(1, ranks.group_size())};
  const NodeId node = append_collective(builder, OpKind::kAllReduce, {{squares, one}}, 1, ranks,
                                        RingOf::kGroup, false, "sum_of_squares");
  return builder.program().node(node).outputs[0];
}

StepScalars append_step_scalars(OpBuilder& builder, ProgramFamily& family, const StepOptions& options) {
  Program& program = builder.program();
  const LossScaleStorages& scale = family.loss_scale;
  StepScalars scalars;
  if (scale.scale.valid())
    scalars.coefficient =
        builder.value(OpKind::kReciprocal, {program.read_state(scale.scale)}, {}, "unscale");
  if (options.max_grad_norm <= 0 && !scale.found_inf.valid()) return scalars;
  std::vector<ValueId> gradients;
  for (const ParameterGradient& gradient : gradients_of(family, program))
    gradients.push_back(gradient.gradient);
  ValueId squares = builder.value(OpKind::kSumOfSquares, std::move(gradients), {}, "sum_of_squares");
  if (family.shards_what_is_trained()) squares = sum_over_ranks(builder, squares, options.ranks);
  if (options.max_grad_norm > 0) {
    const NodeId clip = builder.add(OpKind::kClipCoefficient, {squares, scalars.coefficient},
                                    ClipAttributes{options.max_grad_norm}, "clip");
    scalars.coefficient = program.node(clip).outputs[0];
    builder.bind_output(program.node(clip).outputs[1], family.grad_norm);
  }
  if (!scale.found_inf.valid()) return scalars;
  scalars.found_inf = builder.value(OpKind::kFoundInf, {squares}, {}, "found_inf");
  builder.bind_output(scalars.found_inf, scale.found_inf);
  if (!scale.applied_in_row.valid()) return scalars;
  builder.add(OpKind::kLossScaleUpdate,
              {program.read_state(scale.scale), program.read_state(scale.applied_in_row),
               program.read_state(scale.overflows_to_go), scalars.found_inf},
              LossScaleAttributes{.growth_interval = options.loss_scale.growth_interval,
                                  .hysteresis = options.loss_scale.hysteresis,
                                  .minimum = options.loss_scale.minimum},
              "loss_scale_update");
  return scalars;
}

// Adds these up over the ranks, all at once; in the backward with `chunk_elements` of all such nodes, which will share a buffer.
void sum_over_ranks(OpBuilder& builder, std::vector<ValueId*> sums, const StepOptions& options,
                    int64_t chunk_elements) {
  const RankOptions& ranks = options.ranks;
  std::vector<RingValue> values;
  for (const ValueId* one : sums) {
    const int64_t elements = builder.program().type(*one).shape.elements();
    values.push_back({*one, {ring_segment(elements, ranks.group_size())}});
  }
  const NodeId node = append_collective(builder, OpKind::kAllReduce, values, chunk_elements, ranks,
                                        RingOf::kGroup, false, "update_sums_over_ranks");
  for (size_t i = 0; i < sums.size(); ++i) *sums[i] = builder.program().node(node).outputs[i];
}

// The sums over whole parameters that updates read, by gradient; invalid for those that read none.
std::vector<ValueId> append_sums(OpBuilder& builder, const ProgramFamily& family, const UpdateInputs& shared,
                                 const StepOptions& options) {
  const auto& gradients = gradients_of(family, builder.program());
  std::vector<ValueId> sums(gradients.size());
  std::vector<ValueId*> summed;
  int64_t stored = 0, most_stored = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const StorageId weight = gradients[i].storage;
    if (!reads_sums(*family.state, options.optimizer.settings, weight)) continue;
    sums[i] = append_update_sums(builder, options.optimizer, shared, weight, rest_of(*family.state, weight),
                                 gradients[i].gradient);
    summed.push_back(&sums[i]);
    const int64_t elements = builder.program().type(sums[i]).shape.elements();
    const int64_t piece = ceil_divide(elements, options.ranks.group_size());
    stored += piece;
    most_stored = std::max(most_stored, piece);
  }
  if (summed.empty()) return sums;
  const int64_t most = most_chunk_elements(options.ranks, RingOf::kGroup, DType::kF64);
  if (!options.update_in_backward) {
    sum_over_ranks(builder, summed, options, std::min(stored, most));
  } else {
    for (ValueId* one : summed) sum_over_ranks(builder, {one}, options, std::min(most_stored, most));
  }
  return sums;
}

void append_updates(Program& program, ProgramFamily& family, const StepOptions& options) {
  OpBuilder builder(program);
  Region region;
  region.component = Component::kOptimizer;
  region.phase = Phase::kUpdate;
  builder.set_region(region);
  const auto [coefficient, found_inf] = append_step_scalars(builder, family, options);
  const ValueId learning_rate = program.read_state(family.scalars.learning_rate);
  const ValueId applied_updates = program.read_state(family.scalars.applied_updates);
  UpdateInputs shared{learning_rate, applied_updates, coefficient, found_inf, options.seed};
  if (options.max_grad_value > 0) shared.max_gradient = options.max_grad_value;
  const std::vector<ValueId> sums = append_sums(builder, family, shared, options);
  const auto& gradients = gradients_of(family, program);
  for (size_t i = 0; i < gradients.size(); ++i) {
    append_update(builder, options.optimizer, shared, gradients[i].storage,
                  rest_of(*family.state, gradients[i].storage), gradients[i].gradient, sums[i]);
  }
}

// An update, behind the nodes that make nothing but the sums that it reads.
std::vector<NodeId> nodes_of_update(const Program& program, NodeId update) {
  std::vector<NodeId> nodes = {update};
  const UpdateLayout layout = update_layout(program.node(update));
  if (layout.sums_input < 0) return nodes;
  const ValueId sums =
      program.node(update).inputs[static_cast<size_t>(layout.shared_inputs + layout.sums_input)];
  const NodeId over_ranks = program.value(sums).producer;
  const NodeId of_rank = program.value(program.node(over_ranks).inputs[0]).producer;
  return {of_rank, over_ranks, update};
}

// What all updates of a step read, which is no tensor's own.
std::set<ValueId> shared_inputs(const Node& update) {
  const auto shared = update.inputs.begin() + update_layout(update).shared_inputs;
  return {update.inputs.begin(), shared};
}

// As the gradients' sums go: one lane alone sends at a time.
void put_sums_beside_lane_0(Program& program) {
  OpBuilder builder(program);
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (!is_update(node)) continue;
    const std::vector<NodeId> nodes = nodes_of_update(program, NodeId{static_cast<int32_t>(i)});
    for (const NodeId own : nodes) {
      if (program.node(own).kind == OpKind::kAllReduce) put_beside_lane_0(builder, own, RingOf::kGroup);
    }
  }
}

void move_updates_into_backward(Program& program) {
  // An update stands behind the last node that makes its gradient or has read the weight that it overwrites; in front of it
  // stand the nodes that make its sums.
  std::map<size_t, std::vector<NodeId>> behind;
  std::vector<bool> moved(program.nodes().size(), false);
  std::set<NodeId> shared;  // makers of what all updates read: the inverse of a fixed loss scale
  const auto readers = program.readers();
  const std::vector<int64_t> last_running = program.last_running();
  // Where a node has read its inputs: beside lane 0 (a gather of a shard) when somebody has waited for it.
  const auto has_read_at = [&](NodeId id) {
    if (program.node(id).lane == 0) return id.at();
    return std::min(static_cast<size_t>(last_running[id.at()]) + 1, program.nodes().size() - 1);
  };
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (!is_update(node)) continue;
    size_t last = 0;
    const std::vector<NodeId> nodes = nodes_of_update(program, NodeId{static_cast<int32_t>(i)});
    const auto is_own = [&](NodeId id) { return std::find(nodes.begin(), nodes.end(), id) != nodes.end(); };
    const std::set<ValueId> of_all = shared_inputs(node);
    for (const ValueId value : of_all) {
      if (value.valid() && program.value(value).producer.valid())
        shared.insert(program.value(value).producer);
    }
    for (const NodeId own : nodes) {
      for (const ValueId input : program.node(own).inputs) {
        if (!input.valid() || of_all.contains(input)) continue;
        const NodeId producer = program.value(input).producer;
        if (producer.valid() && !is_own(producer)) last = std::max(last, producer.at());
        for (const NodeId reader : readers[input.at()]) {
          if (!is_own(reader)) last = std::max(last, has_read_at(reader));
        }
      }
      moved[own.at()] = true;
    }
    behind[last].insert(behind[last].end(), nodes.begin(), nodes.end());
  }
  std::vector<NodeId> order;
  for (const NodeId maker : shared) {
    for (const ValueId input : program.node(maker).inputs)
      CHECK(!input.valid() || !program.value(input).producer.valid(),
            "what updates in the backward share is made of more than state");
    order.push_back(maker);
    moved[maker.at()] = true;
  }
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (!moved[i]) order.push_back(NodeId{static_cast<int32_t>(i)});
    if (const auto found = behind.find(i); found != behind.end()) {
      order.insert(order.end(), found->second.begin(), found->second.end());
    }
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    if (moved[i]) program.nodes()[i].pass = {};  // they stand where they do by this pass
  }
  program.reorder(order);
  put_sums_beside_lane_0(program);
}

void join_last_updates(Program& program) {
  size_t tail = program.nodes().size();
  while (tail > 0 && is_update(program.nodes()[tail - 1])) --tail;
  std::vector<NodeId> updates;
  std::vector<NodeId> order;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    (i < tail ? order : updates).push_back(NodeId{static_cast<int32_t>(i)});
  }
  if (updates.size() < 2) return;
  // Tensors share a node whose weights have one form and whose states are as many.
  std::map<std::tuple<OpKind, WeightForm, size_t>, std::vector<NodeId>> alike;
  for (const NodeId id : updates) {
    const Node& node = program.node(id);
    const auto& attributes = std::get<UpdateAttributes>(node.attributes);
    alike[{node.kind, attributes.form, attributes.states.at(0).size()}].push_back(id);
  }
  for (const auto& [form, nodes] : alike) {
    OpBuilder builder(program);
    order.push_back(append_joined_update(builder, nodes));
  }
  program.reorder(order);
}

}  // namespace

void assign_weight_decay(StateTable& state, const StepOptions& options) {
  for (Parameter& parameter : state.parameters()) {
    const float standard = is_decayed(parameter) ? options.optimizer.weight_decay : 0;
    parameter.weight_decay = options.decay_of ? options.decay_of(parameter.name, standard) : standard;
  }
}

void update(ProgramFamily& family, const StepOptions& options) {
  if (!options.ranks.updates()) return;
  for (Program* program : updating_programs(family)) append_updates(*program, family, options);
}

void update_in_backward(ProgramFamily& family, const StepOptions& options) {
  if (!options.update_in_backward) return;
  for (Program* program : updating_programs(family)) move_updates_into_backward(*program);
}

void fuse_update(ProgramFamily& family, const StepOptions&) {
  for (Program* program : updating_programs(family)) join_last_updates(*program);
}

}  // namespace shoehorn
