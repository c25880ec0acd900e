#include "passes/lora.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "ops/op_builder.h"
#include "passes/module_names.h"
#include "passes/place_nodes.h"
#include "passes/update.h"

namespace shoehorn {

namespace {

// Those of a model's own dropouts count from 0.
constexpr uint32_t kFirstStream = 1U << 16;

constexpr std::string_view kWeightSuffix = ".weight";

struct LinearLayer {
  NodeId product;
  ParameterId weight;
  std::string module;
  bool is_transposed = false;  // x·W instead of x·Wᵀ
};

// Products with the weight of a module, one a use.
std::vector<LinearLayer> linear_layers(const Program& program) {
  const StateTable& state = program.state();
  std::vector<LinearLayer> layers;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind != OpKind::kMatmul) continue;
    const auto& attributes = std::get<MatmulAttributes>(node.attributes);
    if (attributes.transpose_a) continue;
    const StorageId storage = program.value(node.inputs[1]).storage;
    if (!storage.valid()) continue;
    const auto parameters = state.parameters_of(storage);
    if (parameters.size() != 1) continue;
    const std::string& name = state.parameter(parameters[0]).name;
    if (!name.ends_with(kWeightSuffix)) continue;
    layers.push_back({NodeId{static_cast<int32_t>(i)}, parameters[0],
                      name.substr(0, name.size() - kWeightSuffix.size()), !attributes.transpose_b});
  }
  return layers;
}

std::string last_part(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

UserError unknown_name(std::string_view flag, const std::string& name, const std::set<std::string>& known) {
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string nearest = nearest_name(last_part(name), names);
  return user_error("[{} {}] expected names of modules such as {}, got one that the model has not{}", flag,
                    name, fmt::join(names, ", "), nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

void check_settings(const LoraOptions& options) {
  if (options.rank < 0) throw user_error("[lora_rank] expected 0 (off) or more, got {}", options.rank);
  if (!(options.alpha > 0 && std::isfinite(options.alpha)))
    throw user_error("[lora_alpha] expected more than 0, got {}", options.alpha);
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw user_error("[lora_dropout] expected a probability in [0, 1), got {}", options.dropout);
}

// Which parameters are trained and saved whole, and which layers have adapters.
class Selection {
 public:
  Selection(const Program& program, const LoraOptions& options)
      : state_(program.state()), layers_(linear_layers(program)) {
    const NodeId logits = logits_product(program);
    for (const LinearLayer& layer : layers_) {
      if (layer.product == logits) head_ = layer.module;
    }
    select_saved(options.modules_to_save);
    name_tied_modules();
    select_targets(options.targets);
  }

  const std::set<std::string>& targeted() const { return targeted_; }
  const std::vector<ParameterId>& saved() const { return saved_; }
  const std::vector<std::string>& target_names() const { return target_names_; }
  const std::vector<std::string>& saved_names() const { return saved_names_; }
  bool saves_tied_modules() const { return saves_tied_modules_; }

 private:
  void select_saved(std::vector<std::string> names) {
    if (names == std::vector<std::string>{"none"}) return;
    if (names.empty() && !head_.empty()) names = {head_};
    std::set<ParameterId> saved;
    for (const std::string& name : names) {
      bool is_known = false;
      for (size_t i = 0; i < state_.parameters().size(); ++i) {
        if (!names_parameter(name, state_.parameters()[i])) continue;
        saved.insert(ParameterId{static_cast<int32_t>(i)});
        is_known = true;
      }
      if (!is_known) throw unknown_name("lora_modules_to_save", name, known_parts({}));
    }
    saved_.assign(saved.begin(), saved.end());
    saved_names_ = names;
  }

  // By its own module, or by the head's where it is both.
  bool names_parameter(const std::string& name, const Parameter& parameter) const {
    const auto other = state_.other_names().find(parameter.name);
    return names_module_of(parameter.name, name) ||
           (other != state_.other_names().end() && names_module_of(other->second, name));
  }

  // PEFT ties the two modules where it reads the name of one that it knows for that, and not every table's is.
  void name_tied_modules() {
    for (const auto& [table, head] : state_.other_names()) {
      const ParameterId id = state_.find_parameter(table);
      if (std::find(saved_.begin(), saved_.end(), id) == saved_.end()) continue;
      saves_tied_modules_ = true;
      for (const std::string& parameter : {table, head}) {
        const bool is_named =
            std::any_of(saved_names_.begin(), saved_names_.end(),
                        [&](const std::string& name) { return names_module_of(parameter, name); });
        if (!is_named) saved_names_.push_back(last_part(parameter.substr(0, parameter.rfind('.'))));
      }
    }
  }

  void select_targets(const std::vector<std::string>& names) {
    const bool all = names == std::vector<std::string>{"all-linear"};
    // A module that is trained whole needs no adapter; that of the logits gets none.
    std::set<std::string> open;
    for (const LinearLayer& layer : layers_) {
      const bool is_saved = std::find(saved_.begin(), saved_.end(), layer.weight) != saved_.end();
      if (!is_saved && layer.module != head_) open.insert(layer.module);
    }
    if (all) targeted_ = open;
    for (const std::string& name : all ? std::vector<std::string>{} : names) {
      bool is_known = false;
      for (const std::string& module : open) {
        if (!names_module(module, name)) continue;
        targeted_.insert(module);
        is_known = true;
      }
      if (!is_known) refuse_target(name, open);
    }
    target_names_ = all ? std::vector<std::string>(targeted_.begin(), targeted_.end()) : names;
    if (targeted_.empty())
      throw user_error("[lora_target] expected a linear layer before the logits, got a model without one");
  }

  [[noreturn]] void refuse_target(const std::string& name, const std::set<std::string>& open) const {
    const bool is_closed = std::any_of(layers_.begin(), layers_.end(), [&](const LinearLayer& layer) {
      return names_module(layer.module, name);
    });
    if (is_closed) {
      throw user_error(
          "[lora_target {}] expected linear layers before the logits that are not in lora_modules_to_save, "
          "got one that is trained whole or makes the logits",
          name);
    }
    throw unknown_name("lora_target", name, known_parts(open));
  }

  // The last parts of these modules' names; of all linear layers' where there are none.
  std::set<std::string> known_parts(const std::set<std::string>& modules) const {
    std::set<std::string> parts;
    for (const std::string& module : modules) parts.insert(last_part(module));
    if (!modules.empty()) return parts;
    for (const LinearLayer& layer : layers_) parts.insert(last_part(layer.module));
    return parts;
  }

  const StateTable& state_;
  std::vector<LinearLayer> layers_;
  std::string head_;
  std::set<std::string> targeted_;  // modules
  std::vector<ParameterId> saved_;
  std::vector<std::string> target_names_;
  std::vector<std::string> saved_names_;
  bool saves_tied_modules_ = false;
};

// Puts the adapters into one program; their parameters are made by the first.
class Adapter {
 public:
  Adapter(Program& program, ProgramFamily& family, const StepOptions& options)
      : program_(program), family_(family), options_(options), builder_(program) {}

  void run(const std::set<std::string>& targeted) {
    const size_t nodes = program_.nodes().size();
    for (const LinearLayer& layer : linear_layers(program_)) {
      if (targeted.contains(layer.module)) adapt(layer);
    }
    place_behind(program_, nodes, behind_);
  }

 private:
  void adapt(const LinearLayer& layer) {
    const Node product = program_.node(layer.product);
    builder_.set_region(product.region);
    const Parameter& weight = program_.state().parameter(layer.weight);
    CHECK(weight.is_whole(), "{}: adapters of a weight that is not whole here", weight.name);
    const int64_t inputs = weight.shape[layer.is_transposed ? 0 : 1];
    const int64_t outputs = weight.shape[layer.is_transposed ? 1 : 0];
    const float bound = 1.0F / std::sqrt(static_cast<float>(inputs));
    const ParameterId a = parameter(layer.module + ".lora_A.weight", {options_.lora.rank, inputs},
                                    {.kind = Initializer::Kind::kUniform, .bound = bound}, product.region);
    const ParameterId b = parameter(layer.module + ".lora_B.weight", {outputs, options_.lora.rank},
                                    {.kind = Initializer::Kind::kZeros}, product.region);
    note({layer.weight, a, b, layer.is_transposed});
    const ValueId x = dropped(layer, product.inputs[0]);
    ValueId low =
        append(layer, OpKind::kMatmul, {x, read(a)}, MatmulAttributes{.transpose_b = true}, "lora_a");
    if (family_.adapters.scale != 1)
      low = append(layer, OpKind::kScale, {low}, ScaleAttributes{family_.adapters.scale}, "lora_scaled");
    const ValueId delta =
        append(layer, OpKind::kMatmul, {low, read(b)}, MatmulAttributes{.transpose_b = true}, "lora_b");
    const ValueId sum = append(layer, OpKind::kAdd, {product.outputs[0], delta}, {}, "lora_sum");
    program_.replace_uses(product.outputs[0], sum);
    program_.node(program_.value(sum).producer).inputs[0] = product.outputs[0];
  }

  ParameterId parameter(const std::string& name, const std::vector<int64_t>& shape,
                        const Initializer& initializer, const Region& region) {
    StateTable& state = program_.state();
    if (const ParameterId known = state.find_parameter(name); known.valid()) return known;
    Storage storage;
    storage.name = name;
    storage.type.shape = Shape(std::vector<Dim>(shape.begin(), shape.end()));
    storage.region.layer = region.layer;
    storage.region.component = region.component;
    Parameter made;
    made.name = name;
    made.shape = shape;
    made.storage = state.add_storage(std::move(storage));
    made.is_adapter = true;
    made.initializer = initializer;
    return state.add_parameter(std::move(made));
  }

  void note(const LowRankAdapter& adapter) {
    std::vector<LowRankAdapter>& known = family_.adapters.list;
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const LowRankAdapter& other) {
      return other.weight == adapter.weight;
    });
    if (!is_known) known.push_back(adapter);
  }

  ValueId dropped(const LinearLayer& layer, ValueId x) {
    if (options_.lora.dropout == 0 || !program_.traits().trains) return x;
    BatchInputs& batch = family_.train_batches[0];
    const ValueId step = program_.read_state(family_.scalars.step);
    const auto input = [&](BatchColumn column) { return program_.read_state(batch.request(column)); };
    BatchColumn sample_column = BatchColumn::kSequenceSample;
    BatchColumn position_column = BatchColumn::kSequencePosition;
    for (const BatchAxis axis : {BatchAxis::kTokens, BatchAxis::kDecoderTokens}) {
      if (program_.type(x).shape[0].count != batch_count(0, axis)) continue;
      sample_column = token_columns(axis).sample;
      position_column = token_columns(axis).positions;
    }
    const ValueId sample = input(sample_column);
    const ValueId position = input(position_column);
    return append(layer, OpKind::kDropout, {x, step, sample, position},
                  DropoutAttributes{{options_.lora.dropout, options_.seed, next_stream_++}}, "lora_dropout");
  }

  ValueId read(ParameterId id) { return program_.read_state(program_.state().parameter(id).storage); }

  ValueId append(const LinearLayer& layer, OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                 const std::string& name) {
    const NodeId made = builder_.add(kind, std::move(inputs), std::move(attributes), name);
    behind_[layer.product].push_back(made);
    return program_.node(made).outputs[0];
  }

  Program& program_;
  ProgramFamily& family_;
  const StepOptions& options_;
  OpBuilder builder_;
  uint32_t next_stream_ = kFirstStream;
  NewNodes behind_;
};

}  // namespace

void lora(ProgramFamily& family, const StepOptions& options) {
  check_settings(options.lora);
  if (options.lora.rank == 0) return;
  StateTable& state = *family.state;
  LoraOptions settings = options.lora;
  if (settings.targets.empty()) settings.targets = family.adapters.default_targets;
  if (settings.modules_to_save.empty()) settings.modules_to_save = family.adapters.default_modules_to_save;
  const Selection selection(family.programs[0], settings);
  for (Parameter& parameter : state.parameters()) parameter.trainable = false;
  for (const ParameterId id : selection.saved()) state.parameter(id).trainable = true;
  family.adapters.scale = options.lora.alpha / static_cast<float>(options.lora.rank);
  family.adapters.saved = selection.saved();
  family.adapters.target_modules = selection.target_names();
  family.adapters.modules_to_save = selection.saved_names();
  family.adapters.ensure_weight_tying = selection.saves_tied_modules();
  for (Program& program : family.programs) Adapter(program, family, options).run(selection.targeted());
  assign_weight_decay(state, options);
}

}  // namespace shoehorn
