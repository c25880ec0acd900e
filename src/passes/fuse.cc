#include "passes/fuse.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/op_builder.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

// Finds chains in a forward program and puts fused nodes in the place of their last node.
class Fuser {
 public:
  explicit Fuser(Program& program) : program_(program), nodes_(program.nodes().size()) { count_readers(); }

  void fuse_attentions() {
    for (const Node& node : program_.nodes()) {
      if (const auto chain = match_attention(node)) ++chains_[chain->parameters()];
    }
    at_each_node(&Fuser::fuse_attention);
  }
  void fuse_residual_norms() { at_each_node(&Fuser::fuse_residual_norm); }
  void fuse_bias_activations() { at_each_node(&Fuser::fuse_bias_activation); }
  void fuse_biases() { at_each_node(&Fuser::fuse_bias); }

 private:
  struct Linear {
    ValueId x, weight, bias;
    ValueId addend;  // added to the product before the bias, as an adapter is; invalid: nothing
    Attributes attributes;
  };

  // Attention of linear layers' outputs.
  struct AttentionChain {
    std::array<Linear, 3> parts;  // query, key, value
    NodeId softmax;

    std::array<ValueId, 6> parameters() const {
      return {parts[0].weight, parts[0].bias, parts[1].weight, parts[1].bias, parts[2].weight, parts[2].bias};
    }
  };

  void at_each_node(void (Fuser::*fuse)(NodeId anchor)) {
    for (size_t i = 0; i < nodes_; ++i) (this->*fuse)(NodeId{static_cast<int32_t>(i)});
    place();
  }

  void count_readers() {
    readers_.assign(program_.values().size(), 0);
    for (const Node& node : program_.nodes()) {
      for (const ValueId input : node.inputs) {
        if (input.valid()) ++readers_[input.at()];
      }
    }
    for (const Program::Result& result : program_.results()) ++readers_[result.value.at()];
  }

  // The node that makes `value`, if it is a `kind` and nobody else reads the value.
  const Node* sole(ValueId value, OpKind kind) const {
    if (!value.valid() || value.at() >= readers_.size() || readers_[value.at()] != 1) return nullptr;
    const NodeId producer = program_.value(value).producer;
    if (!producer.valid() || program_.node(producer).kind != kind) return nullptr;
    return &program_.node(producer);
  }

  std::optional<Linear> match_linear(ValueId value) const {
    const Node* bias = sole(value, OpKind::kBiasAdd);
    const Node* sum = bias == nullptr ? nullptr : sole(bias->inputs[0], OpKind::kAdd);
    const Node* product =
        bias == nullptr ? nullptr : sole((sum == nullptr ? bias : sum)->inputs[0], OpKind::kMatmul);
    if (product == nullptr || product->inputs.size() > 2) return std::nullopt;
    return Linear{product->inputs[0], product->inputs[1], bias->inputs[1],
                  sum == nullptr ? ValueId{} : sum->inputs[1], product->attributes};
  }

  std::optional<AttentionChain> match_attention(const Node& context) const {
    if (context.kind != OpKind::kAttentionContext) return std::nullopt;
    const Node* softmax = sole(context.inputs[0], OpKind::kAttentionSoftmax);
    const Node* scores = softmax == nullptr ? nullptr : sole(softmax->inputs[0], OpKind::kAttentionScores);
    if (scores == nullptr) return std::nullopt;
    const auto q = match_linear(scores->inputs[0]);
    const auto k = match_linear(scores->inputs[1]);
    const auto v = match_linear(context.inputs[1]);
    if (!q || !k || !v) return std::nullopt;
    return AttentionChain{{*q, *k, *v}, program_.value(context.inputs[0]).producer};
  }

  NodeId append(NodeId anchor, OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                const std::string& name) {
    OpBuilder builder(program_);
    builder.set_region(program_.node(anchor).region);
    const NodeId made = builder.add(kind, std::move(inputs), std::move(attributes), name);
    replacements_[anchor].push_back(made);
    return made;
  }

  // New nodes go to where their chain ended; what nobody reads any more goes.
  void place() {
    place_behind(program_, nodes_, replacements_);
    replacements_.clear();
    program_.remove_dead_nodes();
    nodes_ = program_.nodes().size();
    count_readers();
  }

  // One storage for three of a kind; the same again for another program of the family.
  ValueId merged(const std::array<ValueId, 3>& parts, const std::string& suffix) {
    StateTable& state = program_.state();
    std::vector<StorageId> storages;
    for (const ValueId part : parts) storages.push_back(program_.value(part).storage);
    if (const StorageId known = state.storage(storages[0]).merged_into; known.valid())
      return program_.read_state(known);
    std::vector<StorageId> rests;
    for (const StorageId storage : storages) {
      const Parameter& parameter = state.parameter(state.parameters_of(storage).at(0));
      if (parameter.rest.valid()) rests.push_back(parameter.rest);
    }
    const std::string name = state.storage(storages[0]).name + suffix;
    const StorageId whole = state.merge(storages, name);
    if (!rests.empty()) state.merge(rests, name + ".rest");
    return program_.read_state(whole);
  }

  // Whether the parameters can become one storage: of a kind, and read by nothing but attention (several
  // times where a layer is used several times).
  bool mergeable(const AttentionChain& chain) const {
    const int64_t uses = chains_.at(chain.parameters());
    for (const ValueId parameter : chain.parameters()) {
      if (readers_[parameter.at()] != uses) return false;
    }
    const auto& parts = chain.parts;
    const StateTable& state = program_.state();
    const auto alike = [&](ValueId a, ValueId b) {
      const Value& first = program_.value(a);
      const Value& second = program_.value(b);
      if (!first.storage.valid() || !second.storage.valid() || first.storage == second.storage) return false;
      if (state.storage(first.storage).merged_into != state.storage(second.storage).merged_into) return false;
      if (state.storage(first.storage).merged_into.valid()) return true;
      const Parameter& p = state.parameter(state.parameters_of(first.storage).at(0));
      const Parameter& q = state.parameter(state.parameters_of(second.storage).at(0));
      return p.trainable == q.trainable && p.weight_decay == q.weight_decay && first.type == second.type;
    };
    return parts[0].x == parts[1].x && parts[0].x == parts[2].x && alike(parts[0].weight, parts[1].weight) &&
           alike(parts[1].weight, parts[2].weight) && alike(parts[0].bias, parts[1].bias) &&
           alike(parts[1].bias, parts[2].bias);
  }

  void fuse_attention(NodeId anchor) {
    const Node context = program_.node(anchor);
    const auto chain = match_attention(context);
    if (!chain || !mergeable(*chain)) return;
    const auto& [q, k, v] = chain->parts;
    const Node probabilities = program_.node(chain->softmax);
    const ValueId weight = merged({q.weight, k.weight, v.weight}, ".qkv");
    const ValueId bias = merged({q.bias, k.bias, v.bias}, ".qkv");
    const NodeId product = append(anchor, OpKind::kMatmul, {q.x, weight, bias}, q.attributes, "qkv");
    ValueId qkv = program_.node(product).outputs[0];
    ColumnsAttributes third{0, program_.type(context.outputs[0]).shape[1].maximum};
    for (const Linear& part : chain->parts) {
      if (part.addend.valid()) {
        const NodeId sum = append(anchor, OpKind::kAddColumns, {qkv, part.addend}, third, "qkv_sum");
        qkv = program_.node(sum).outputs[0];
      }
      third.offset += third.width;
    }
    const NodeId fused = append(anchor, OpKind::kAttention,
                                {qkv, probabilities.inputs[1], probabilities.inputs[2],
                                 probabilities.inputs[3], probabilities.inputs[4]},
                                probabilities.attributes, "attention");
    program_.replace_uses(context.outputs[0], program_.node(fused).outputs[0]);
  }

  void fuse_residual_norm(NodeId anchor) {
    const Node norm = program_.node(anchor);
    if (norm.kind != OpKind::kLayerNorm) return;
    const Node* sum = sole(norm.inputs[0], OpKind::kAdd);
    if (sum == nullptr) return;
    const ValueId residual = sum->inputs[1];
    const Node* dropout = sole(sum->inputs[0], OpKind::kDropout);
    const Node* bias = sole(dropout != nullptr ? dropout->inputs[0] : sum->inputs[0], OpKind::kBiasAdd);
    if (bias == nullptr) return;
    auto attributes = std::get<NormalizationAttributes>(norm.attributes);
    std::vector<ValueId> inputs = {bias->inputs[0], bias->inputs[1], residual, norm.inputs[1],
                                   norm.inputs[2]};
    if (dropout != nullptr) {
      attributes.dropout = std::get<DropoutAttributes>(dropout->attributes).dropout;
      inputs.insert(inputs.end(), dropout->inputs.begin() + 1, dropout->inputs.end());
    } else {
      inputs.resize(8);
    }
    const NodeId fused =
        append(anchor, OpKind::kBiasDropoutResidualLayerNorm, std::move(inputs), attributes, "residual_norm");
    program_.replace_uses(norm.outputs[0], program_.node(fused).outputs[0]);
  }

  void fuse_bias_activation(NodeId anchor) {
    const Node activation = program_.node(anchor);
    if (activation.kind != OpKind::kActivation) return;
    const Node* bias = sole(activation.inputs[0], OpKind::kBiasAdd);
    if (bias == nullptr) return;
    const std::vector<ValueId> inputs = bias->inputs;
    const NodeId fused =
        append(anchor, OpKind::kBiasActivation, inputs, activation.attributes, "bias_activation");
    program_.replace_uses(activation.outputs[0], program_.node(fused).outputs[0]);
  }

  void fuse_bias(NodeId anchor) {
    const Node bias = program_.node(anchor);
    if (bias.kind != OpKind::kBiasAdd) return;
    const Node* product = sole(bias.inputs[0], OpKind::kMatmul);
    if (product == nullptr || product->inputs.size() > 2) return;
    std::vector<ValueId> inputs = product->inputs;
    inputs.push_back(bias.inputs[1]);
    const Attributes attributes = product->attributes;
    const NodeId fused = append(anchor, OpKind::kMatmul, std::move(inputs), attributes, "linear");
    program_.replace_uses(bias.outputs[0], program_.node(fused).outputs[0]);
  }

  Program& program_;
  size_t nodes_;
  std::vector<int64_t> readers_;
  std::map<std::array<ValueId, 6>, int64_t> chains_;  // how many read these parameters
  NewNodes replacements_;
};

}  // namespace

void fuse_attention(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) Fuser(program).fuse_attentions();
}

void fuse_residual_norm(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) Fuser(program).fuse_residual_norms();
}

void fuse_bias_activation(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) Fuser(program).fuse_bias_activations();
}

void fuse_bias(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) Fuser(program).fuse_biases();
}

}  // namespace shoehorn
