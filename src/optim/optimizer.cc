#include "optim/optimizer.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "ops/update_layout.h"

namespace shoehorn {

namespace {

// As long as the weight storage: the weight decay of the parameters in it. Parameters of one storage share
// it.
float decay_of(const StateTable& state, StorageId weight) {
  const auto parameters = state.parameters_of(weight);
  CHECK(!parameters.empty(), "storage {} holds no parameter", state.storage(weight).name);
  const float decay = state.parameter(parameters[0]).weight_decay;
  for (const ParameterId id : parameters) {
    CHECK(state.parameter(id).weight_decay == decay, "{} mixes decay groups", state.storage(weight).name);
  }
  return decay;
}

ValueId read_optimizer_state(Program& program, StorageId weight, const std::string& name) {
  StateTable& state = program.state();
  const std::string full_name = state.storage(weight).name + "." + name;
  StorageId id = state.find_storage(full_name);
  if (!id.valid()) {
    Storage storage = state.storage(weight);
    storage.name = full_name;
    storage.type.dtype = DType::kF32;
    storage.role = Role::kOptimizerState;
    id = state.add_storage(std::move(storage));
  }
  return program.read_state(id);
}

std::vector<float>& decays(Attributes& attributes) {
  if (auto* adamw = std::get_if<AdamWAttributes>(&attributes)) return adamw->weight_decay;
  return std::get<SgdAttributes>(attributes).weight_decay;
}

}  // namespace

std::vector<std::string> optimizer_state_names(const OptimizerOptions& options) {
  if (options.kind == OptimizerKind::kAdamW) return {"exp_avg", "exp_avg_sq"};
  if (options.momentum != 0) return {"momentum_buffer"};
  return {};
}

bool is_decayed(std::string_view parameter_name) {
  std::string name(parameter_name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* part : {"bias", "layernorm", "rmsnorm"}) {
    if (name.find(part) != std::string::npos) return false;
  }
  // (?:^|\.)norm(?:$|\.) and _norm(?:$|\.)
  for (size_t at = name.find("norm"); at != std::string::npos; at = name.find("norm", at + 1)) {
    const bool starts = at == 0 || name[at - 1] == '.' || name[at - 1] == '_';
    const bool ends = at + 4 == name.size() || name[at + 4] == '.';
    if (starts && ends) return false;
  }
  return true;
}

NodeId append_update(OpBuilder& builder, const OptimizerOptions& options, ValueId learning_rate,
                     ValueId applied_updates, ValueId clip_coefficient, StorageId weight, StorageId rest,
                     ValueId gradient) {
  Program& program = builder.program();
  Region region = program.state().storage(weight).region;
  region.phase = Phase::kUpdate;
  builder.set_region(region);
  std::vector<ValueId> inputs = {learning_rate, applied_updates, clip_coefficient,
                                 program.read_state(weight)};
  if (rest.valid()) inputs.push_back(program.read_state(rest));
  inputs.push_back(gradient);
  for (const std::string& name : optimizer_state_names(options))
    inputs.push_back(read_optimizer_state(program, weight, name));
  const std::vector<float> decay = {decay_of(program.state(), weight)};
  const std::string name = program.state().storage(weight).name + ".update";
  if (options.kind == OptimizerKind::kAdamW) {
    return builder.add(OpKind::kAdamW, std::move(inputs),
                       AdamWAttributes{options.beta1, options.beta2, options.epsilon, decay, rest.valid()},
                       name);
  }
  return builder.add(OpKind::kSgd, std::move(inputs),
                     SgdAttributes{options.momentum, options.nesterov, decay, rest.valid()}, name);
}

NodeId append_joined_update(OpBuilder& builder, const std::vector<NodeId>& updates) {
  Program& program = builder.program();
  const Node first = program.node(updates.at(0));
  const int64_t shared = update_layout(first).shared_inputs;
  std::vector<ValueId> inputs(first.inputs.begin(), first.inputs.begin() + shared);
  Attributes attributes = first.attributes;
  decays(attributes).clear();
  std::vector<ValueId> replaced;
  for (const NodeId id : updates) {
    Node& node = program.node(id);
    inputs.insert(inputs.end(), node.inputs.begin() + shared, node.inputs.end());
    decays(attributes).push_back(decays(node.attributes).at(0));
    replaced.insert(replaced.end(), node.outputs.begin(), node.outputs.end());
  }
  Region region;
  region.component = Component::kOptimizer;
  region.phase = Phase::kUpdate;
  builder.set_region(region);
  const NodeId joined = builder.add(first.kind, std::move(inputs), std::move(attributes), "update");
  for (size_t i = 0; i < replaced.size(); ++i)
    program.replace_uses(replaced[i], program.node(joined).outputs[i]);
  return joined;
}

}  // namespace shoehorn
