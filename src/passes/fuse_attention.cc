#include "passes/fuse_attention.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/attention_layout.h"
#include "passes/node_fuser.h"

namespace shoehorn {

namespace {

class AttentionFuser {
 public:
  explicit AttentionFuser(Program& program) : program_(program), fuser_(program) {}

  void run() {
    for (const Node& node : program_.nodes()) {
      const auto chain = match_attention(node);
      if (!chain) continue;
      for (const Linears& linears : {linears_of(*chain, 0), linears_of(*chain, 1)}) {
        if (are_of_one_value(linears)) ++uses_[parameters_of(linears)];
      }
    }
    for (size_t i = 0; i < fuser_.nodes(); ++i) fuse(NodeId{static_cast<int32_t>(i)});
    fuser_.place();
  }

 private:
  struct Linear {
    ValueId x, weight;
    ValueId bias;    // invalid: none
    ValueId addend;  // added to the product before the bias, as an adapter is; invalid: nothing
    Attributes attributes;
  };
  using Linears = std::vector<Linear>;

  struct AttentionChain {
    std::array<ValueId, 3> operands;  // query, key, value
    NodeId scores;
    NodeId softmax;
  };

  static std::vector<ValueId> parameters_of(const Linears& linears) {
    std::vector<ValueId> parameters;
    for (const Linear& linear : linears) {
      parameters.push_back(linear.weight);
      if (linear.bias.valid()) parameters.push_back(linear.bias);
    }
    return parameters;
  }

  // x·Wᵀ, with or without a bias.
  std::optional<Linear> match_linear(ValueId value) const {
    const Node* bias = fuser_.sole(value, OpKind::kBiasAdd);
    const ValueId unbiased = bias == nullptr ? value : bias->inputs[0];
    const Node* sum = fuser_.sole(unbiased, OpKind::kAdd);
    const Node* product = fuser_.sole(sum == nullptr ? unbiased : sum->inputs[0], OpKind::kMatmul);
    if (product == nullptr || product->inputs.size() > 2) return std::nullopt;
    const auto& attributes = std::get<MatmulAttributes>(product->attributes);
    if (attributes.transpose_a || !attributes.transpose_b) return std::nullopt;
    return Linear{product->inputs[0], product->inputs[1], bias == nullptr ? ValueId{} : bias->inputs[1],
                  sum == nullptr ? ValueId{} : sum->inputs[1], product->attributes};
  }

  std::optional<AttentionChain> match_attention(const Node& context) const {
    if (context.kind != OpKind::kAttentionContext) return std::nullopt;
    const Node* softmax = fuser_.sole(context.inputs[0], OpKind::kAttentionSoftmax);
    const Node* scores =
        softmax == nullptr ? nullptr : fuser_.sole(softmax->inputs[0], OpKind::kAttentionScores);
    if (scores == nullptr) return std::nullopt;
    return AttentionChain{{scores->inputs[0], scores->inputs[1], context.inputs[1]},
                          program_.value(softmax->inputs[0]).producer,
                          program_.value(context.inputs[0]).producer};
  }

  // The linear layers that make the operands of attention from operand `first` on; none where one is not made
  // so.
  Linears linears_of(const AttentionChain& chain, size_t first) const {
    Linears linears;
    for (size_t i = first; i < chain.operands.size(); ++i) {
      const auto linear = match_linear(chain.operands[i]);
      if (!linear) return {};
      linears.push_back(*linear);
    }
    return linears;
  }

  // One storage for several of a kind; the same again for another program of the family.
  ValueId merged(const std::vector<ValueId>& parts, const std::string& suffix) {
    StateTable& state = program_.state();
    std::vector<StorageId> storages;
    for (const ValueId part : parts) storages.push_back(program_.value(part).storage);
    if (const StorageId known = state.storage(storages[0]).merged_into; known.valid()) {
      CHECK(state.parameters_of(known).size() == parts.size(),
            "'{}' holds other parameters in another program", state.storage(known).name);
      return program_.read_state(known);
    }
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

  // Whether two parameters can lie in one storage: as long rows, trained alike.
  bool are_alike(ValueId a, ValueId b) const {
    if (!a.valid() || !b.valid()) return a.valid() == b.valid();
    const StateTable& state = program_.state();
    const Value& first = program_.value(a);
    const Value& second = program_.value(b);
    if (!first.storage.valid() || !second.storage.valid() || first.storage == second.storage) return false;
    const StorageId merged = state.storage(first.storage).merged_into;
    if (merged != state.storage(second.storage).merged_into) return false;
    if (merged.valid()) return true;
    const Parameter& p = state.parameter(state.parameters_of(first.storage).at(0));
    const Parameter& q = state.parameter(state.parameters_of(second.storage).at(0));
    const auto row = [](const TensorType& type) {
      return std::vector<Dim>(type.shape.dims().begin() + 1, type.shape.dims().end());
    };
    return p.trainable == q.trainable && p.weight_decay == q.weight_decay &&
           first.type.dtype == second.type.dtype && row(first.type) == row(second.type);
  }

  static bool are_of_one_value(const Linears& linears) {
    return !linears.empty() && std::all_of(linears.begin(), linears.end(),
                                           [&](const Linear& linear) { return linear.x == linears[0].x; });
  }

  // Whether these products can become one: of one value, with parameters that can lie in one storage and are
  // read by nothing but such products (several times where a layer is used several times).
  bool mergeable(const Linears& linears) const {
    if (!are_of_one_value(linears)) return false;
    const std::vector<ValueId> parameters = parameters_of(linears);
    const int64_t uses = uses_.at(parameters);
    for (const ValueId parameter : parameters) {
      if (fuser_.readers(parameter) != uses) return false;
    }
    return std::all_of(linears.begin() + 1, linears.end(), [&](const Linear& other) {
      return are_alike(linears[0].weight, other.weight) && are_alike(linears[0].bias, other.bias);
    });
  }

  // One product of linear layers of one value, their outputs side by side.
  ValueId merge_products(NodeId anchor, const Linears& linears, const std::string& name) {
    std::vector<ValueId> weights, biases;
    std::vector<int64_t> widths;
    for (const Linear& linear : linears) {
      widths.push_back(program_.type(linear.weight).shape[0].maximum);
      weights.push_back(linear.weight);
      if (linear.bias.valid()) biases.push_back(linear.bias);
    }
    std::vector<ValueId> inputs = {linears[0].x, merged(weights, "." + name)};
    if (!biases.empty()) inputs.push_back(merged(biases, "." + name));
    const NodeId product =
        fuser_.append(anchor, OpKind::kMatmul, std::move(inputs), linears[0].attributes, name);
    ValueId made = program_.node(product).outputs[0];
    int64_t column = 0;
    for (size_t i = 0; i < linears.size(); ++i) {
      if (linears[i].addend.valid()) {
        const NodeId sum = fuser_.append(anchor, OpKind::kAddColumns, {made, linears[i].addend},
                                         ColumnsAttributes{column, widths[i]}, name + "_sum");
        made = program_.node(sum).outputs[0];
      }
      column += widths[i];
    }
    return made;
  }

  void fuse(NodeId anchor) {
    const Node context = program_.node(anchor);
    const auto chain = match_attention(context);
    if (!chain) return;
    const Node scores = program_.node(chain->scores);
    const Node softmax = program_.node(chain->softmax);
    const auto input_of_scores = [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      return at < scores.inputs.size() ? scores.inputs[at] : ValueId{};
    };
    const AttentionInputs of_scores = attention_inputs(OpKind::kAttentionScores);
    auto attributes = std::get<AttentionAttributes>(softmax.attributes);
    const int64_t query_columns = attributes.heads * attributes.head_size;
    const int64_t key_columns = attributes.key_value_heads * attributes.head_size;
    ValueId q = chain->operands[0], k = chain->operands[1], v = chain->operands[2];
    if (const Linears all = linears_of(*chain, 0); mergeable(all)) {
      q = merge_products(anchor, all, "qkv");
      k = v = {};
      attributes.key_column = query_columns;
      attributes.value_column = query_columns + key_columns;
    } else if (const Linears pair = linears_of(*chain, 1); mergeable(pair)) {
      k = merge_products(anchor, pair, "kv");
      v = {};
      attributes.value_column = key_columns;
    }
    std::vector<ValueId> inputs = {q,
                                   softmax.inputs[1],
                                   softmax.inputs[2],
                                   softmax.inputs[3],
                                   softmax.inputs[4],
                                   k,
                                   v,
                                   input_of_scores(of_scores.key_start),
                                   input_of_scores(of_scores.key_start + 1),
                                   input_of_scores(of_scores.bias)};
    while (!inputs.back().valid()) inputs.pop_back();
    const NodeId fused =
        fuser_.append(anchor, OpKind::kAttention, std::move(inputs), attributes, "attention");
    program_.replace_uses(context.outputs[0], program_.node(fused).outputs[0]);
  }

  Program& program_;
  NodeFuser fuser_;
  std::map<std::vector<ValueId>, int64_t> uses_;  // attentions whose products read these parameters
};

}  // namespace

void fuse_attention(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) AttentionFuser(program).run();
}

}  // namespace shoehorn
