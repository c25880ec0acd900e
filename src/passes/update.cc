#include "passes/update.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
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
  const std::vector<RingSegment> one = {ring_segment(1, ranks.world_size)};
  const NodeId node =
      append_collective(builder, OpKind::kAllReduce, {{squares, one}}, 1, ranks, false, "sum_of_squares");
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
  for (const ParameterGradient& gradient : gradients_of(family, program)) {
    append_update(builder, options.optimizer, shared, gradient.storage,
                  rest_of(*family.state, gradient.storage), gradient.gradient);
  }
}

void move_updates_into_backward(Program& program) {
  // An update stands behind the last node that makes its gradient or reads the weight that it overwrites.
  std::map<size_t, std::vector<NodeId>> behind;
  std::vector<bool> moved(program.nodes().size(), false);
  std::set<NodeId> shared;  // makers of what all updates read: the inverse of a fixed loss scale
  const auto readers = program.readers();
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (!is_update(node)) continue;
    size_t last = 0;
    const UpdateLayout layout = update_layout(node);
    for (size_t input = 0; input < static_cast<size_t>(layout.shared_inputs); ++input) {
      const ValueId value = node.inputs[input];
      if (value.valid() && program.value(value).producer.valid())
        shared.insert(program.value(value).producer);
    }
    for (size_t input = static_cast<size_t>(layout.shared_inputs); input < node.inputs.size(); ++input) {
      const NodeId producer = program.value(node.inputs[input]).producer;
      if (producer.valid()) last = std::max(last, producer.at());
      for (const NodeId reader : readers[node.inputs[input].at()]) {
        if (reader.at() != i) last = std::max(last, reader.at());
      }
    }
    behind[last].push_back(NodeId{static_cast<int32_t>(i)});
    moved[i] = true;
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
