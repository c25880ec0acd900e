#include "optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/update_layout.h"

namespace shoehorn {

namespace {

// The weight decay of the parameters in a weight storage, which have the same one; as long as the storage.
float decay_of(const StateTable& state, StorageId weight) {
  const auto parameters = state.parameters_of(weight);
  CHECK(!parameters.empty(), "storage {} holds no parameter", state.storage(weight).name);
  const float decay = state.parameter(parameters[0]).weight_decay;
  for (const ParameterId id : parameters) {
    CHECK(state.parameter(id).weight_decay == decay, "{} mixes decay groups", state.storage(weight).name);
  }
  return decay;
}

// The states of a weight storage: those of its parameters, which have the same ones.
std::vector<OptimizerState> storage_states(const StateTable& state, const OptimizerSettings& settings,
                                           StorageId weight) {
  std::vector<OptimizerState> whole;
  const auto parameters = state.parameters_of(weight);
  for (const ParameterId id : parameters) {
    std::vector<OptimizerState> own = optimizer_states(settings, state.parameter(id));
    if (whole.empty()) {
      whole = std::move(own);
      continue;
    }
    CHECK(own.size() == whole.size(), "{} mixes kinds of optimizer state", state.storage(weight).name);
    for (size_t i = 0; i < own.size(); ++i) {
      CHECK(own[i].name == whole[i].name && own[i].dtype == whole[i].dtype,
            "{} mixes kinds of optimizer state", state.storage(weight).name);
      whole[i].shape = {whole[i].elements() + own[i].elements()};
    }
  }
  return whole;
}

TensorType type_of(const OptimizerState& kept) {
  return {kept.dtype, Shape(std::vector<Dim>(kept.shape.begin(), kept.shape.end()))};
}

ValueId read_optimizer_state(Program& program, StorageId weight, const OptimizerState& kept) {
  StateTable& state = program.state();
  const std::string full_name = state.storage(weight).name + "." + kept.name;
  StorageId id = state.find_storage(full_name);
  if (!id.valid()) {
    Storage storage = state.storage(weight);
    storage.name = full_name;
    storage.type = type_of(kept);
    storage.role = Role::kOptimizerState;
    id = state.add_storage(std::move(storage));
  }
  return program.read_state(id);
}

// The stream is the parameter's number, which no pass changes.
UpdatedParameter updated_parameter(const StateTable& state, ParameterId id) {
  const std::vector<int64_t>& shape = state.parameter(id).shape;
  const size_t rank = shape.size();
  UpdatedParameter updated{.rows = rank < 2 ? 1 : shape[rank - 2],
                           .columns = rank < 1 ? 1 : shape[rank - 1],
                           .stream_id = static_cast<uint32_t>(id.index)};
  for (size_t i = 0; i + 2 < rank; ++i) updated.matrices *= shape[i];
  return updated;
}

WeightForm form_of(const StateTable& state, StorageId weight, StorageId rest) {
  if (rest.valid()) return WeightForm::kSplit;
  return state.storage(weight).type.dtype == DType::kBF16 ? WeightForm::kRounded : WeightForm::kFloat32;
}

// What updates a parameter: under an 8-bit optimizer one of 32 bits where the parameter's states have 32.
OptimizerSettings settings_for(const OptimizerSettings& settings, const Parameter& parameter) {
  if (keeps_8bit_states(settings, parameter)) return settings;
  if (const auto* adamw = std::get_if<AdamW8bitSettings>(&settings)) return adamw->adamw;
  if (const auto* lion = std::get_if<Lion8bitSettings>(&settings)) return lion->lion;
  return settings;
}

OpKind op_of(const OptimizerSettings& settings) {
  struct Visitor {
    OpKind operator()(const AdamWSettings&) const { return OpKind::kAdamW; }
    OpKind operator()(const SgdSettings&) const { return OpKind::kSgd; }
    OpKind operator()(const AdagradSettings&) const { return OpKind::kAdagrad; }
    OpKind operator()(const RmsPropSettings&) const { return OpKind::kRmsProp; }
    OpKind operator()(const LionSettings&) const { return OpKind::kLion; }
    OpKind operator()(const AdafactorSettings&) const { return OpKind::kAdafactor; }
    OpKind operator()(const AdamW8bitSettings&) const { return OpKind::kAdamW8bit; }
    OpKind operator()(const Lion8bitSettings&) const { return OpKind::kLion8bit; }
  };
  return std::visit(Visitor(), settings);
}

// Names of the states of each element; Adafactor's have shapes of their own.
std::vector<std::string> elementwise_states(const OptimizerSettings& settings) {
  struct Visitor {
    std::vector<std::string> operator()(const AdamWSettings&) const { return {"exp_avg", "exp_avg_sq"}; }
    std::vector<std::string> operator()(const SgdSettings& sgd) const {
      return sgd.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{};
    }
    std::vector<std::string> operator()(const AdagradSettings&) const { return {"sum"}; }
    std::vector<std::string> operator()(const RmsPropSettings& rms) const {
      std::vector<std::string> names = {"square_avg"};
      if (rms.momentum != 0) names.emplace_back("momentum_buffer");
      if (rms.centered) names.emplace_back("grad_avg");
      return names;
    }
    std::vector<std::string> operator()(const LionSettings&) const { return {"exp_avg"}; }
    std::vector<std::string> operator()(const AdafactorSettings& adafactor) const {
      return adafactor.beta1 ? std::vector<std::string>{"exp_avg"} : std::vector<std::string>{};
    }
    std::vector<std::string> operator()(const AdamW8bitSettings&) const { return {"state1", "state2"}; }
    std::vector<std::string> operator()(const Lion8bitSettings&) const { return {"state1"}; }
  };
  return std::visit(Visitor(), settings);
}

}  // namespace

int64_t OptimizerState::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool keeps_8bit_states(const OptimizerSettings& settings, const Parameter& parameter) {
  const EightBitStates* eight = nullptr;
  if (const auto* adamw = std::get_if<AdamW8bitSettings>(&settings)) eight = &adamw->states;
  if (const auto* lion = std::get_if<Lion8bitSettings>(&settings)) eight = &lion->states;
  return eight != nullptr && parameter.elements() >= eight->least_elements &&
         (eight->of_embeddings || !parameter.is_embedding);
}

std::vector<OptimizerState> optimizer_states(const OptimizerSettings& settings, const Parameter& parameter) {
  const std::vector<int64_t>& shape = parameter.shape;
  std::vector<OptimizerState> states;
  if (std::holds_alternative<AdafactorSettings>(settings)) {
    std::vector<int64_t> columns = shape;
    if (shape.size() < 2) {
      states.push_back({"exp_avg_sq", DType::kF32, std::move(columns)});
    } else {
      columns.erase(columns.end() - 2);
      states.push_back({"exp_avg_sq_row", DType::kF32, {shape.begin(), shape.end() - 1}});
      states.push_back({"exp_avg_sq_col", DType::kF32, std::move(columns)});
    }
  }
  const bool in_8bit = keeps_8bit_states(settings, parameter);
  const std::vector<std::string> names = elementwise_states(settings);
  for (const std::string& name : names) states.push_back({name, in_8bit ? DType::kU8 : DType::kF32, shape});
  const int64_t blocks = ceil_divide(parameter.elements(), kStateBlock);
  for (size_t i = 0; in_8bit && i < names.size(); ++i)
    states.push_back({fmt::format("absmax{}", i + 1), DType::kF32, {blocks}});
  return states;
}

OptimizerStatePlace find_optimizer_state(const StateTable& state, const OptimizerSettings& settings,
                                         const Parameter& parameter, const std::string& name) {
  OptimizerStatePlace place{state.find_storage(state.storage(parameter.storage).name + "." + name)};
  for (const ParameterId id : state.parameters_of(parameter.storage)) {
    const Parameter& other = state.parameter(id);
    if (other.offset_elements >= parameter.offset_elements) continue;
    for (const OptimizerState& kept : optimizer_states(settings, other)) {
      if (kept.name == name) place.offset_elements += kept.elements();
    }
  }
  return place;
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

NodeId append_update(OpBuilder& builder, const OptimizerOptions& options, const UpdateInputs& shared,
                     StorageId weight, StorageId rest, ValueId gradient) {
  Program& program = builder.program();
  Region region = program.state().storage(weight).region;
  region.phase = Phase::kUpdate;
  builder.set_region(region);
  std::vector<ValueId> inputs = {shared.learning_rate, shared.applied_updates, shared.clip_coefficient,
                                 shared.found_inf, program.read_state(weight)};
  if (rest.valid()) inputs.push_back(program.read_state(rest));
  inputs.push_back(gradient);
  UpdateAttributes attributes;
  attributes.settings =
      settings_for(options.settings, program.state().parameter(program.state().parameters_of(weight).at(0)));
  attributes.weight_decay = {decay_of(program.state(), weight)};
  attributes.form = form_of(program.state(), weight, rest);
  attributes.seed = shared.seed;
  attributes.max_gradient = shared.max_gradient;
  attributes.parameters.emplace_back();
  attributes.states.emplace_back();
  for (const ParameterId id : program.state().parameters_of(weight))
    attributes.parameters[0].push_back(updated_parameter(program.state(), id));
  for (const OptimizerState& kept : storage_states(program.state(), options.settings, weight)) {
    inputs.push_back(read_optimizer_state(program, weight, kept));
    attributes.states[0].push_back(type_of(kept));
  }
  const std::string name = program.state().storage(weight).name + ".update";
  const OpKind kind = op_of(attributes.settings);
  return builder.add(kind, std::move(inputs), std::move(attributes), name);
}

NodeId append_joined_update(OpBuilder& builder, const std::vector<NodeId>& updates) {
  Program& program = builder.program();
  const Node first = program.node(updates.at(0));
  const int64_t shared = update_layout(first).shared_inputs;
  std::vector<ValueId> inputs(first.inputs.begin(), first.inputs.begin() + shared);
  auto attributes = std::get<UpdateAttributes>(first.attributes);
  attributes.weight_decay.clear();
  attributes.parameters.clear();
  attributes.states.clear();
  std::vector<ValueId> replaced;
  for (const NodeId id : updates) {
    Node& node = program.node(id);
    inputs.insert(inputs.end(), node.inputs.begin() + shared, node.inputs.end());
    const auto& own = std::get<UpdateAttributes>(node.attributes);
    attributes.weight_decay.push_back(own.weight_decay.at(0));
    attributes.parameters.push_back(own.parameters.at(0));
    attributes.states.push_back(own.states.at(0));
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
