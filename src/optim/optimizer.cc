#include "optim/optimizer.h"

#include <algorithm>
#include <cctype>

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
      whole[i].shape = {whole[i].stored_elements() + own[i].stored_elements()};
      whole[i].shard.reset();
    }
  }
  return whole;
}

TensorType type_of(const OptimizerState& kept) {
  if (kept.is_sharded()) return {kept.dtype, {kept.stored_elements()}};
  return {kept.dtype, Shape(std::vector<Dim>(kept.shape.begin(), kept.shape.end()))};
}

// Of a moment that each process holds whole.
std::optional<Shard> whole_shard(const Parameter& parameter, int64_t elements) {
  if (!parameter.is_sharded()) return std::nullopt;
  return Shard{.slice = Slice::whole(elements),
               .owner = parameter.slice().contains(0) ? parameter.owner() : kAnotherOwner};
}

// Whether a shard and its padding are rows of a matrix in a row.
bool is_whole_rows(const Parameter& parameter) {
  const Slice slice = parameter.slice();
  const int64_t columns = parameter.shape.back();
  return slice.is_contiguous() && slice.offset % columns == 0 && slice.elements() % columns == 0 &&
         parameter.stored_elements() % columns == 0;
}

// Of the moments of a parameter's rows.
std::optional<Shard> row_shard(const Parameter& parameter, int64_t rows) {
  if (!parameter.is_sharded() || !is_whole_rows(parameter)) return whole_shard(parameter, rows);
  const Slice slice = parameter.slice();
  const int64_t columns = parameter.shape.back();
  const int64_t first = slice.offset / columns;
  const int64_t count = slice.elements() / columns;
  return Shard{.slice = Slice::range(first, first + count),
               .padding = parameter.stored_elements() / columns - count,
               .owner = parameter.owner()};
}

int64_t blocks_of(int64_t elements) {
  return ceil_divide(elements, kStateBlock);
}

// Of the scales of a parameter's 8-bit blocks.
std::optional<Shard> block_shard(const Parameter& parameter) {
  if (!parameter.is_sharded()) return std::nullopt;
  const Slice slice = parameter.slice();
  const auto is_multiple = [](int64_t elements) { return elements % kStateBlock == 0; };
  const bool ends_with_block = is_multiple(slice.length) || slice.end() == parameter.global_elements();
  CHECK(is_multiple(slice.offset) && ends_with_block && (slice.is_contiguous() || is_multiple(slice.stride)),
        "{} is cut within a block of {} elements that share a scale: {}", parameter.name, kStateBlock,
        slice_text(slice));
  const int64_t length = blocks_of(slice.length);
  const Slice blocks = {slice.offset / kStateBlock, length,
                        slice.is_contiguous() ? length : slice.stride / kStateBlock, slice.runs};
  return Shard{.slice = blocks,
               .padding = blocks_of(parameter.stored_elements()) - blocks.elements(),
               .owner = parameter.owner()};
}

// [replicas, …], of which this one has its own.
void become_own(OptimizerState& kept, const Replica& replica) {
  CHECK(!kept.is_sharded(), "{} is sharded, and each process has its own", kept.name);
  const int64_t elements = kept.global_elements();
  kept.shape.insert(kept.shape.begin(), replica.count);
  kept.shard = Shard{.slice = Slice::range(replica.number * elements, (replica.number + 1) * elements),
                     .owner = replica.number};
}

ParameterMatrices matrices_of(const Parameter& parameter) {
  const std::vector<int64_t>& shape = parameter.shape;
  const size_t rank = shape.size();
  ParameterMatrices whole{.rows = rank < 2 ? 1 : shape[rank - 2], .columns = rank < 1 ? 1 : shape[rank - 1]};
  for (size_t i = 0; i + 2 < rank; ++i) whole.matrices *= shape[i];
  return whole;
}

// The stream is the parameter's number, which no pass changes.
UpdatedParameter updated_parameter(const StateTable& state, ParameterId id, bool reads_sums) {
  const Parameter& parameter = state.parameter(id);
  const ParameterMatrices whole = matrices_of(parameter);
  UpdatedParameter updated{.stream_id = static_cast<uint32_t>(id.index),
                           .first_element = parameter.slice().offset,
                           .padding = parameter.stored_elements() - parameter.local_elements()};
  if (reads_sums) {
    const bool is_matrix = parameter.shape.size() > 1;
    updated.rows = is_matrix ? parameter.local_elements() / whole.columns : 1;
    updated.columns = is_matrix ? whole.columns : parameter.local_elements();
    updated.whole = whole;
  } else if (!parameter.is_whole()) {
    updated.rows = 1;
    updated.columns = parameter.local_elements();
  } else {
    updated.matrices = whole.matrices;
    updated.rows = whole.rows;
    updated.columns = whole.columns;
  }
  return updated;
}

Region update_region(const StateTable& state, StorageId weight) {
  Region region = state.storage(weight).region;
  region.phase = Phase::kUpdate;
  return region;
}

WeightForm form_of(const StateTable& state, StorageId weight, StorageId rest) {
  if (rest.valid()) return WeightForm::kSplit;
  return state.storage(weight).type.dtype == DType::kBF16 ? WeightForm::kBfloat16 : WeightForm::kFloat32;
}

// That a shard can be updated by its elements, and sums over the whole where there are some.
void check_updates_shard(const Parameter& parameter, const UpdateAttributes& attributes) {
  const bool needs_rows = attributes.reads_sums && parameter.shape.size() > 1;
  const bool needs_one_run = attributes.reads_sums || attributes.form == WeightForm::kBfloat16;
  const Slice slice = parameter.slice();
  CHECK((!needs_rows || is_whole_rows(parameter)) && (slice.is_contiguous() || !needs_one_run),
        "{}: no update of such a shard: {}", parameter.name, slice_text(slice));
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

bool keeps_8bit_states(const OptimizerSettings& settings, const Parameter& parameter) {
  const EightBitStates* eight = nullptr;
  if (const auto* adamw = std::get_if<AdamW8bitSettings>(&settings)) eight = &adamw->states;
  if (const auto* lion = std::get_if<Lion8bitSettings>(&settings)) eight = &lion->states;
  return eight != nullptr && parameter.global_elements() >= eight->least_elements &&
         (eight->of_embeddings || !parameter.is_embedding);
}

std::vector<OptimizerState> optimizer_states(const OptimizerSettings& settings, const Parameter& parameter) {
  const std::vector<int64_t>& shape = parameter.shape;
  std::vector<OptimizerState> states;
  const auto add = [&](std::string name, DType dtype, std::vector<int64_t> dims) -> OptimizerState& {
    return states.emplace_back(OptimizerState{{std::move(dims), parameter.shard}, std::move(name), dtype});
  };
  if (std::holds_alternative<AdafactorSettings>(settings)) {
    std::vector<int64_t> columns = shape;
    if (shape.size() < 2) {
      add("exp_avg_sq", DType::kF32, std::move(columns));
    } else {
      columns.erase(columns.end() - 2);
      OptimizerState& of_rows = add("exp_avg_sq_row", DType::kF32, {shape.begin(), shape.end() - 1});
      of_rows.shard = row_shard(parameter, of_rows.global_elements());
      OptimizerState& of_columns = add("exp_avg_sq_col", DType::kF32, std::move(columns));
      of_columns.shard = whole_shard(parameter, of_columns.global_elements());
    }
  }
  const bool in_8bit = keeps_8bit_states(settings, parameter);
  const std::vector<std::string> names = elementwise_states(settings);
  for (const std::string& name : names) add(name, in_8bit ? DType::kU8 : DType::kF32, shape);
  const int64_t blocks = blocks_of(parameter.global_elements());
  for (size_t i = 0; in_8bit && i < names.size(); ++i)
    add(fmt::format("absmax{}", i + 1), DType::kF32, {blocks}).shard = block_shard(parameter);
  if (parameter.own_states) {
    for (OptimizerState& kept : states) become_own(kept, *parameter.own_states);
  }
  return states;
}

int64_t shard_multiple(const OptimizerSettings& settings, const Parameter& parameter) {
  if (std::holds_alternative<AdafactorSettings>(settings) && parameter.shape.size() > 1)
    return parameter.shape.back();
  return keeps_8bit_states(settings, parameter) ? kStateBlock : 1;
}

OptimizerStatePlace find_optimizer_state(const StateTable& state, const OptimizerSettings& settings,
                                         const Parameter& parameter, const std::string& name) {
  OptimizerStatePlace place{state.find_storage(state.storage(parameter.storage).name + "." + name)};
  for (const ParameterId id : state.parameters_of(parameter.storage)) {
    const Parameter& other = state.parameter(id);
    if (other.offset_elements >= parameter.offset_elements) continue;
    for (const OptimizerState& kept : optimizer_states(settings, other)) {
      if (kept.name == name) place.offset_elements += kept.stored_elements();
    }
  }
  return place;
}

bool is_decayed(const Parameter& parameter) {
  return !parameter.is_layer_norm && is_decayed(parameter.name);
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

std::vector<StorageId> add_optimizer_states(StateTable& state, const OptimizerSettings& settings,
                                            StorageId weight) {
  std::vector<StorageId> ids;
  for (const OptimizerState& kept : storage_states(state, settings, weight)) {
    Storage storage = state.storage(weight);
    storage.name += "." + kept.name;
    storage.type = type_of(kept);
    storage.role = Role::kOptimizerState;
    const StorageId known = state.find_storage(storage.name);
    ids.push_back(known.valid() ? known : state.add_storage(std::move(storage)));
  }
  return ids;
}

bool reads_sums(const StateTable& state, const OptimizerSettings& settings, StorageId weight) {
  return std::holds_alternative<AdafactorSettings>(settings) &&
         state.parameter(state.parameters_of(weight).at(0)).is_sharded();
}

ValueId append_update_sums(OpBuilder& builder, const OptimizerOptions& options, const UpdateInputs& shared,
                           StorageId weight, StorageId rest, ValueId gradient) {
  Program& program = builder.program();
  const StateTable& state = program.state();
  builder.set_region(update_region(state, weight));
  AdafactorSumsAttributes attributes{.settings = std::get<AdafactorSettings>(options.settings),
                                     .parameters = {},
                                     .form = form_of(state, weight, rest),
                                     .max_gradient = shared.max_gradient};
  for (const ParameterId id : state.parameters_of(weight)) {
    attributes.parameters.push_back(updated_parameter(state, id, true));
    attributes.is_factored = state.parameter(id).shape.size() > 1;
  }
  const std::vector<StorageId> states = add_optimizer_states(program.state(), options.settings, weight);
  std::vector<ValueId> inputs = {shared.applied_updates, gradient, program.read_state(states.at(0)),
                                 shared.clip_coefficient};
  if (attributes.settings.scale_parameter) {
    inputs.push_back(program.read_state(weight));
    if (rest.valid()) inputs.push_back(program.read_state(rest));
  }
  const std::string name = program.state().storage(weight).name + ".sums";
  return builder.value(OpKind::kAdafactorSums, std::move(inputs), std::move(attributes), name);
}

NodeId append_update(OpBuilder& builder, const OptimizerOptions& options, const UpdateInputs& shared,
                     StorageId weight, StorageId rest, ValueId gradient, ValueId sums) {
  Program& program = builder.program();
  builder.set_region(update_region(program.state(), weight));
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
  attributes.reads_sums = reads_sums(program.state(), attributes.settings, weight);
  CHECK(attributes.reads_sums == sums.valid(), "{}: an update {} sums over all processes",
        program.state().storage(weight).name, attributes.reads_sums ? "without" : "with");
  attributes.parameters.emplace_back();
  attributes.states.emplace_back();
  for (const ParameterId id : program.state().parameters_of(weight)) {
    check_updates_shard(program.state().parameter(id), attributes);
    attributes.parameters[0].push_back(updated_parameter(program.state(), id, attributes.reads_sums));
  }
  for (const StorageId kept : add_optimizer_states(program.state(), options.settings, weight)) {
    inputs.push_back(program.read_state(kept));
    attributes.states[0].push_back(program.state().storage(kept).type);
  }
  if (sums.valid()) inputs.push_back(sums);
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
  program.replace_uses(replaced, program.node(joined).outputs);
  return joined;
}

}  // namespace shoehorn
