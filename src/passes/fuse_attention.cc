#include "passes/fuse_attention.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/attention_layout.h"
#include "optim/optimizer.h"
#include "passes/node_fuser.h"

namespace shoehorn {

namespace {

class AttentionFuser {
 public:
  AttentionFuser(Program& program, const OptimizerSettings& optimizer)
      : program_(program), optimizer_(optimizer), fuser_(program) {}

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

  // A query, key or value of attention: `value`, or columns [column, column + width) of it; then turned by `table`.
  struct Operand {
    ValueId value = {};
    bool is_taken = false;
    int64_t column = 0;
    int64_t width = 0;
    ValueId table = {};  // invalid: not turned
    RotaryAttributes rotary = {};
  };

  struct AttentionChain {
    std::array<ValueId, 3> made;      // what attention reads: query, key, value
    std::array<Operand, 3> operands;  // how each is made
    NodeId scores;
    NodeId softmax;
  };

  // Where attention finds its operands. An absent key lies in the query's value, an absent value in the key's.
  struct Parts {
    std::array<ValueId, 3> values = {};
    std::array<int64_t, 3> columns = {0, 0, 0};
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
    const std::array<ValueId, 3> made = {scores->inputs[0], scores->inputs[1], context.inputs[1]};
    return AttentionChain{made,
                          {operand_of(made[0]), operand_of(made[1]), operand_of(made[2])},
                          program_.value(softmax->inputs[0]).producer,
                          program_.value(context.inputs[0]).producer};
  }

  // Looks through a turn of all its columns, and through taken columns.
  Operand operand_of(ValueId made) const {
    Operand operand{.value = made, .width = program_.type(made).shape[1].maximum};
    if (const Node* turn = fuser_.sole(made, OpKind::kRotary)) {
      operand.rotary = std::get<RotaryAttributes>(turn->attributes);
      if (operand.rotary.heads * operand.rotary.head_size != operand.width) return operand;
      operand.value = turn->inputs[0];
      operand.table = turn->inputs[1];
    }
    if (const Node* taken = fuser_.sole(operand.value, OpKind::kTakeColumns)) {
      operand.is_taken = true;
      operand.column = std::get<ColumnsAttributes>(taken->attributes).offset;
      operand.value = taken->inputs[0];
    }
    return operand;
  }

  // The linear layers that make the operands of attention from operand `first` on; none where one is not made
  // so.
  Linears linears_of(const AttentionChain& chain, size_t first) const {
    Linears linears;
    for (size_t i = first; i < chain.operands.size(); ++i) {
      const auto linear = match_linear(chain.operands[i].value);
      if (!linear || linear_columns(*linear) != chain.operands[i].width) return {};
      linears.push_back(*linear);
    }
    return linears;
  }

  int64_t linear_columns(const Linear& linear) const { return program_.type(linear.weight).shape[0].maximum; }

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
           keeps_8bit_states(optimizer_, p) == keeps_8bit_states(optimizer_, q) &&
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
      widths.push_back(linear_columns(linear));
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

  // Whether the operands from `first` on are columns of one value, none of them another's.
  static bool are_columns_of_one_value(const AttentionChain& chain, size_t first) {
    for (size_t i = first; i < chain.operands.size(); ++i) {
      const Operand& operand = chain.operands[i];
      if (!operand.is_taken || operand.value != chain.operands[first].value) return false;
      for (size_t j = first; j < i; ++j) {
        const Operand& other = chain.operands[j];
        if (operand.column < other.column + other.width && other.column < operand.column + operand.width)
          return false;
      }
    }
    return true;
  }

  // Turns the heads of the operands from `first` on where they lie in `value`: those of one table that follow each
  // other in one go.
  ValueId turned(NodeId anchor, const AttentionChain& chain, size_t first, const Parts& parts,
                 ValueId value) {
    for (size_t i = first; i < chain.operands.size(); ++i) {
      const Operand& operand = chain.operands[i];
      if (!operand.table.valid()) continue;
      RotaryAttributes heads = operand.rotary;
      heads.first_column = parts.columns[i];
      while (i + 1 < chain.operands.size()) {
        const Operand& next = chain.operands[i + 1];
        const bool follows = next.table == operand.table && next.rotary.head_size == heads.head_size &&
                             next.rotary.inverse == heads.inverse &&
                             parts.columns[i + 1] == heads.first_column + heads.heads * heads.head_size;
        if (!follows) break;
        heads.heads += next.rotary.heads;
        ++i;
      }
      const NodeId turn = fuser_.append(anchor, OpKind::kRotary, {value, operand.table}, heads, "rotated");
      value = program_.node(turn).outputs[0];
    }
    return value;
  }

  // The operands from `first` on as columns of one value, if they are so or can be made so; none otherwise.
  std::optional<Parts> joined(NodeId anchor, const AttentionChain& chain, size_t first,
                              const std::string& name) {
    Parts parts{chain.made};
    ValueId value;
    if (const Linears linears = linears_of(chain, first); mergeable(linears)) {
      value = merge_products(anchor, linears, name);
      for (size_t i = first + 1; i < parts.columns.size(); ++i)
        parts.columns[i] = parts.columns[i - 1] + chain.operands[i - 1].width;
    } else if (are_columns_of_one_value(chain, first)) {
      value = chain.operands[first].value;
      for (size_t i = first; i < parts.columns.size(); ++i) parts.columns[i] = chain.operands[i].column;
    } else {
      return std::nullopt;
    }
    for (size_t i = first + 1; i < parts.values.size(); ++i) parts.values[i] = {};
    parts.values[first] = turned(anchor, chain, first, parts, value);
    return parts;
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
    std::optional<Parts> parts = joined(anchor, *chain, 0, "qkv");
    if (!parts) parts = joined(anchor, *chain, 1, "kv");
    if (!parts) parts = Parts{chain->made};
    auto attributes = std::get<AttentionAttributes>(softmax.attributes);
    attributes.query_column = parts->columns[0];
    attributes.key_column = parts->columns[1];
    attributes.value_column = parts->columns[2];
    std::vector<ValueId> inputs = {parts->values[0],
                                   softmax.inputs[1],
                                   softmax.inputs[2],
                                   softmax.inputs[3],
                                   softmax.inputs[4],
                                   parts->values[1],
                                   parts->values[2],
                                   input_of_scores(of_scores.key_start),
                                   input_of_scores(of_scores.key_start + 1),
                                   input_of_scores(of_scores.bias)};
    while (!inputs.back().valid()) inputs.pop_back();
    const NodeId fused =
        fuser_.append(anchor, OpKind::kAttention, std::move(inputs), attributes, "attention");
    program_.replace_uses(context.outputs[0], program_.node(fused).outputs[0]);
  }

  Program& program_;
  const OptimizerSettings& optimizer_;
  NodeFuser fuser_;
  std::map<std::vector<ValueId>, int64_t> uses_;  // attentions whose products read these parameters
};

}  // namespace

void fuse_attention(ProgramFamily& family, const StepOptions& options) {
  for (Program& program : family.programs) AttentionFuser(program, options.optimizer.settings).run();
}

}  // namespace shoehorn
