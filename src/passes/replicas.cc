#include "passes/replicas.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "passes/collective_nodes.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

// A broadcast for each type of weight, in front of every forward.
void add_replicate_program(ProgramFamily& family, const RankOptions& ranks) {
  std::map<DType, std::vector<StorageId>> storages;
  for (const Parameter& parameter : family.state->parameters()) {
    std::vector<StorageId>& alike = storages[family.state->storage(parameter.storage).type.dtype];
    if (std::ranges::find(alike, parameter.storage) == alike.end()) alike.push_back(parameter.storage);
  }
  Program& program = family.programs.emplace_back(ProgramKind::kReplicate, family.state.get());
  OpBuilder builder(program);
  builder.set_region({.phase = Phase::kForward});
  for (const auto& [dtype, alike] : storages) {
    std::vector<ValueId> weights;
    for (const StorageId storage : alike) weights.push_back(program.read_state(storage));
    append_chain(builder, OpKind::kBroadcast, weights, ranks, "replicate_weights");
  }
}

void replace_result(Program& program, ValueId value, ValueId by) {
  for (Program::Result& result : program.results()) {
    if (result.value == value) result.value = by;
  }
}

// The backward's nodes stand behind the loss, so that none of them begins before all ranks have theirs.
void exchange_losses(Program& program, const RankOptions& ranks) {
  const ValueId loss = program.result("loss");
  const NodeId maker = program.value(loss).producer;
  const size_t old_nodes = program.nodes().size();
  OpBuilder builder(program);
  builder.set_region(program.node(maker).region);
  const NodeId gathered = append_chain(builder, OpKind::kReduce, {loss}, ranks, "gather_losses");
  const NodeId scattered =
      append_chain(builder, OpKind::kBroadcast, {program.node(gathered).outputs[0]}, ranks, "scatter_loss");
  const ValueId sum = program.node(scattered).outputs[0];
  program.value(sum).role = program.value(loss).role;
  replace_result(program, loss, sum);
  place_behind(program, old_nodes, {{maker, {gathered, scattered}}});
}

void reduce_gradients(Program& program, std::vector<ParameterGradient>& gradients, const RankOptions& ranks) {
  OpBuilder builder(program);
  builder.set_region({.component = Component::kOptimizer, .phase = Phase::kUpdate});
  std::vector<ValueId> own;
  for (const ParameterGradient& gradient : gradients) own.push_back(gradient.gradient);
  const NodeId node = append_chain(builder, OpKind::kReduce, own, ranks, "reduce_gradients");
  for (size_t i = 0; i < gradients.size(); ++i) {
    const ValueId sum = program.node(node).outputs[i];
    program.value(sum).role = program.value(own[i]).role;
    gradients[i].gradient = sum;
  }
}

}  // namespace

void replicas(ProgramFamily& family, const StepOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (!ranks.are_replicas()) return;
  for (const ProgramId step : family.all(ProgramKind::kTrainStep)) {
    Program& program = family.program(step);
    std::vector<ParameterGradient>& gradients = family.gradients[static_cast<size_t>(program.bucket())];
    exchange_losses(program, ranks);
    reduce_gradients(program, gradients, ranks);
    if (!ranks.updates()) gradients.clear();
  }
  add_replicate_program(family, ranks);
}

void check_replicas(const StepOptions& options) {
  if (!options.ranks.are_replicas()) return;
  const auto refuse = [](std::string_view expected, const std::string& got) {
    return user_error("[--parallel_mode dp] expected {}, got {}; with --parallel_mode ddp it works", expected,
                      got);
  };
  if (options.ranks.stage() > 0) {
    throw refuse("--zero_stage 0, since the first rank has all states",
                 fmt::format("--zero_stage {}", options.ranks.stage()));
  }
  if (options.ranks.local_steps() > 0) {
    throw refuse("--local_sgd_steps 0, since the first rank updates in each step",
                 fmt::format("--local_sgd_steps {}", options.ranks.local_sgd_steps));
  }
  if (options.gradient_accumulation_steps > 1) {
    throw refuse("--gradient_accumulation_steps 1, since each micro-batch of a rank is a step",
                 fmt::format("{}", options.gradient_accumulation_steps));
  }
  if (options.update_in_backward)
    throw refuse("updates behind the backward, where gradients are summed", "--update_in_backward");
  if (options.precision == Precision::kFloat16)
    throw refuse("--bf16 or fp32 products", "--fp16, whose loss scale the first rank alone would change");
}

}  // namespace shoehorn
