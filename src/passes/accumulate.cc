#include "passes/accumulate.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/op_builder.h"
#include "ops/op_info.h"
#include "ops/weight_cast.h"
#include "passes/recompute.h"

namespace shoehorn {

namespace {

// The input by which the first term of a sum takes an accumulator; none where it has no such input.
std::optional<int64_t> free_accumulator(const Program& program, ValueId first_term) {
  const Value& value = program.value(first_term);
  return accumulator_input(program.node(value.producer).kind, value.output);
}

ValueId add_up(Program& program, ValueId accumulator, ValueId value, const Region& region) {
  OpBuilder builder(program);
  builder.set_region(region);
  return builder.value(OpKind::kAdd, {accumulator, value}, {}, program.value(value).name + ".sum");
}

StorageId add_gradient_storage(StateTable& state, StorageId weight) {
  Storage storage = state.storage(weight);
  storage.name += ".gradient";
  storage.type.dtype = DType::kF32;
  storage.role = Role::kGradient;
  return state.add_storage(std::move(storage));
}

// The value is added to the storage: its first term to version 0, and so on.
void accumulate_in_state(Program& program, ValueId value, StorageId storage) {
  const ValueId first_term = terms_in_place(program, value).back();
  if (const auto input = free_accumulator(program, first_term)) {
    OpBuilder(program).bind_output(value, storage);
    set_accumulator(program.node(program.value(first_term).producer), *input, program.read_state(storage));
    return;
  }
  const Region region = program.node(program.value(value).producer).region;
  const ValueId sum = add_up(program, program.read_state(storage), value, region);
  program.set_version(sum, storage, 1);
}

// A weight's cast is made by the first micro-batch and kept for the others, whichever buckets they are of. `kept_of`:
// where those of each weight are kept.
void keep_weight_casts(Program& first, Program& next, std::map<StorageId, StorageId>& kept_of) {
  StateTable& state = first.state();
  OpBuilder builder(first);
  std::vector<NodeId> order;
  for (size_t i = 0; i < next.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const Node& node = next.node(id);
    if (!is_weight_cast(next, node)) {
      order.push_back(id);
      continue;
    }
    const ValueId cast = node.outputs[0];
    const StorageId weight = next.value(node.inputs[0]).storage;
    StorageId& storage = kept_of[weight];
    if (!storage.valid()) {
      Storage kept = state.storage(weight);
      kept.name = next.value(cast).name;
      kept.type = next.type(cast);
      kept.role = Role::kWeight;
      storage = state.add_storage(std::move(kept));
    }
    builder.bind_output(cast, storage);
    next.replace_uses(cast, next.read_state(storage));
  }
  next.reorder(order);
}

void split_by_micro_batch(ProgramFamily& family) {
  Program update(ProgramKind::kUpdate, family.state.get());
  std::map<StorageId, StorageId> casts;      // of weights
  std::map<StorageId, StorageId> gradients;  // of weights
  std::vector<ParameterGradient> complete;
  for (const ParameterGradient& gradient : family.gradients.at(0)) {
    const StorageId storage = add_gradient_storage(*family.state, gradient.storage);
    gradients[gradient.storage] = storage;
    complete.push_back({gradient.storage, update.read_state(storage)});
  }
  std::vector<Program> programs;
  for (const ProgramId step : family.all(ProgramKind::kTrainStep)) {
    Program& first = family.program(step);
    first.set_kind(ProgramKind::kMicroBatchFirst);
    Program next = first;
    next.set_kind(ProgramKind::kMicroBatchNext);
    keep_weight_casts(first, next, casts);
    std::vector<std::pair<ValueId, StorageId>> accumulated = {{first.result("loss"), family.loss}};
    for (const ParameterGradient& gradient : family.gradients[static_cast<size_t>(first.bucket())])
      accumulated.emplace_back(gradient.gradient, gradients.at(gradient.storage));
    OpBuilder builder(first);
    for (const auto& [value, storage] : accumulated) {
      builder.bind_output(value, storage);
      accumulate_in_state(next, value, storage);
    }
    next.results().clear();
    first.results().clear();
    programs.push_back(std::move(first));
    programs.push_back(std::move(next));
  }
  programs.push_back(std::move(update));
  for (Program& program : family.programs) {
    if (!program.traits().trains) programs.push_back(std::move(program));
  }
  family.programs = std::move(programs);
  family.gradients = {std::move(complete)};
}

// Of each node the segment that micro-batches go through together: the embeddings, each group of layers, and
// with the last group the head. What is made again belongs to the backward that it stands in.
std::vector<int64_t> segments_of(const Program& program, int64_t layers_a_segment) {
  int32_t last_layer = 0;
  for (const Node& node : program.nodes()) last_layer = std::max(last_layer, node.region.layer);
  std::vector<int64_t> segments(program.nodes().size());
  for (size_t i = segments.size(); i-- > 0;) {
    const Region& region = program.nodes()[i].region;
    if (region.phase == Phase::kRecompute && i + 1 < segments.size())
      segments[i] = segments[i + 1];
    else if (region.layer < 0 && region.component == Component::kEmbeddings)
      segments[i] = -1;
    else
      segments[i] = (region.layer < 0 ? last_layer : region.layer) / layers_a_segment;
  }
  return segments;
}

// Copies the program once for each micro-batch, segment by segment.
class Unroller {
 public:
  Unroller(ProgramFamily& family, ProgramId step, int64_t micro_batches)
      : family_(family),
        step_(step),
        source_(family.program(step)),
        target_(source_.kind(), family.state.get(), source_.bucket()),
        values_(static_cast<size_t>(micro_batches), std::vector<ValueId>(source_.values().size())),
        sum_of_term_(source_.values().size()) {
    for (int64_t m = 0; m < micro_batches; ++m) {
      add_batch_counts(target_, family.capacity_of(source_));
      if (m == std::ssize(family.train_batches)) {
        family.train_batches.emplace_back(*family.state, family.train_batches[0].capacity(),
                                          static_cast<int32_t>(m));
      }
    }
    add_sum(source_.result("loss"));
    for (const ParameterGradient& gradient : gradients()) add_sum(gradient.gradient);
  }

  void copy(NodeId id, int32_t micro_batch) {
    const Node& original = source_.node(id);
    if (micro_batch > 0 && is_weight_cast(source_, original)) {
      const ValueId cast = original.outputs[0];
      values_[static_cast<size_t>(micro_batch)][cast.at()] = values_[0][cast.at()];
      return;
    }
    Node node = original;
    node.region.micro_batch = micro_batch;
    node.clone_of = {};
    node.outputs.clear();
    for (ValueId& input : node.inputs) {
      if (input.valid()) input = mapped(input, micro_batch);
    }
    shift_counts(node.attributes, batch_count(micro_batch, BatchAxis::kTokens).index);
    // Whichever term of a sum comes next adds to what there is of it.
    std::vector<ValueId> sums_so_far;
    for (size_t i = 0; i < original.outputs.size(); ++i) {
      const ValueId sum = sum_of_term_[original.outputs[i].at()];
      sums_so_far.push_back(sum.valid() ? accumulated_.at(sum) : ValueId{});
      const auto input = accumulator_input(node.kind, static_cast<int64_t>(i));
      if (!sums_so_far[i].valid() || !input) continue;
      set_accumulator(node, *input, sums_so_far[i]);
      sums_so_far[i] = {};
    }
    std::vector<TensorType> types = op_info(node.kind).infer({target_, node});
    const NodeId copy = target_.add_node(std::move(node), types, source_.value(original.outputs[0]).name);
    for (size_t i = 0; i < original.outputs.size(); ++i) {
      const ValueId value = original.outputs[i];
      ValueId made = target_.node(copy).outputs[i];
      target_.value(made).role = source_.value(value).role;
      if (sums_so_far[i].valid()) {
        made = add_up(target_, sums_so_far[i], made, target_.node(copy).region);
        target_.value(made).role = source_.value(value).role;
      }
      if (const ValueId sum = sum_of_term_[value.at()]; sum.valid()) accumulated_[sum] = made;
      values_[static_cast<size_t>(micro_batch)][value.at()] = made;
    }
  }

  void finish() {
    target_.add_result("loss", accumulated_.at(source_.result("loss")));
    for (ParameterGradient& gradient : gradients()) gradient.gradient = accumulated_.at(gradient.gradient);
    family_.program(step_) = std::move(target_);
  }

 private:
  std::vector<ParameterGradient>& gradients() {
    return family_.gradients[static_cast<size_t>(source_.bucket())];
  }

  ValueId mapped(ValueId value, int32_t micro_batch) {
    const Value& source = source_.value(value);
    if (source.producer.valid()) return values_[static_cast<size_t>(micro_batch)][value.at()];
    if (family_.state->storage(source.storage).role != Role::kInput)
      return target_.read_state(source.storage);
    const BatchColumn column = family_.train_batches[0].column_of(source.storage);
    const int64_t width = family_.train_batches[0].width(column);
    return target_.read_state(family_.train_batches[static_cast<size_t>(micro_batch)].request(column, width));
  }

  void add_sum(ValueId sum) {
    accumulated_[sum] = {};
    for (const ValueId term : terms_in_place(source_, sum)) sum_of_term_[term.at()] = sum;
  }

  ProgramFamily& family_;
  ProgramId step_;
  const Program source_;
  Program target_;
  // Of each micro-batch, by value of the source: that of the target.
  std::vector<std::vector<ValueId>> values_;
  std::map<ValueId, ValueId> accumulated_;  // sum of the source -> what there is of it
  // By value of the source: the sum that it grows into, itself where it is one; else invalid.
  std::vector<ValueId> sum_of_term_;
};

void interleave_by_layer(ProgramFamily& family, ProgramId step, const StepOptions& options) {
  const Program source = family.program(step);
  const std::vector<int64_t> segments =
      segments_of(source, std::max<int64_t>(1, layers_of_a_group(source, options)));
  Unroller unroller(family, step, options.gradient_accumulation_steps);
  const size_t nodes = source.nodes().size();
  for (size_t from = 0; from < nodes;) {
    size_t to = from + 1;
    while (to < nodes && segments[to] == segments[from]) ++to;
    for (int32_t m = 0; m < options.gradient_accumulation_steps; ++m) {
      for (size_t i = from; i < to; ++i) unroller.copy(NodeId{static_cast<int32_t>(i)}, m);
    }
    from = to;
  }
  unroller.finish();
}

}  // namespace

void accumulate(ProgramFamily& family, const StepOptions& options) {
  if (!family.find(ProgramKind::kTrainStep).valid()) return;
  if (options.gradient_accumulation_steps > 1 &&
      options.accumulation_order == AccumulationOrder::kMicroBatch) {
    split_by_micro_batch(family);
    return;
  }
  for (const ProgramId step : family.all(ProgramKind::kTrainStep)) {
    if (options.gradient_accumulation_steps > 1) interleave_by_layer(family, step, options);
    Program& program = family.program(step);
    OpBuilder(program).bind_output(program.result("loss"), family.loss);
  }
}

}  // namespace shoehorn
