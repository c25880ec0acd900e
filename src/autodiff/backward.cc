#include "autodiff/backward.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/gradient_context.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

bool is_trainable(const Program& program, StorageId storage) {
  const auto parameters = program.state().parameters_of(storage);
  return std::any_of(parameters.begin(), parameters.end(), [&](ParameterId id) {
    return program.state().parameter(id).trainable && program.state().parameter(id).storage == storage;
  });
}

// Whether a value depends on anything trainable.
std::vector<bool> find_needed(const Program& program) {
  std::vector<bool> needed(program.values().size(), false);
  for (size_t i = 0; i < needed.size(); ++i) {
    const Value& value = program.values()[i];
    needed[i] = value.storage.valid() && !value.producer.valid() && is_trainable(program, value.storage);
  }
  for (const Node& node : program.nodes()) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return input.valid() && needed[input.at()]; });
    for (const ValueId output : node.outputs) needed[output.at()] = any;
  }
  return needed;
}

class Backward {
 public:
  Backward(Program& program, ValueId loss, ValueId seed)
      : program_(program),
        builder_(program),
        needed_(find_needed(program)),
        gradients_(program.values().size()),
        loss_(loss) {
    gradients_[loss.at()] = seed;
  }

  void run() {
    const auto forward_nodes = static_cast<int32_t>(program_.nodes().size());
    for (int32_t at = forward_nodes - 1; at >= 0; --at) visit(NodeId{at});
  }

  ValueId gradient(ValueId value) const { return gradients_[value.at()]; }

 private:
  void visit(NodeId id) {
    // A copy: rules append nodes, which moves the table of nodes.
    const Node node = program_.node(id);
    std::vector<ValueId> output_gradients;
    bool reached = false;
    for (const ValueId output : node.outputs) {
      reached = reached || output == loss_ || gradients_[output.at()].valid();
      output_gradients.push_back(gradients_[output.at()]);
    }
    std::vector<bool> needed;
    for (const ValueId input : node.inputs) needed.push_back(input.valid() && needed_[input.at()]);
    if (!reached || std::none_of(needed.begin(), needed.end(), [](bool b) { return b; })) return;
    const OpInfo& info = op_info(node.kind);
    if (info.gradient == nullptr) {
      throw user_error(
          "[{} in {}] expected an op with a backward between the loss and the parameters, got one without; "
          "freeze what lies behind it",
          info.name, region_name(node.region));
    }
    Region region = node.region;
    region.phase = Phase::kBackward;
    builder_.set_region(region);
    GradientContext context(builder_, id, std::move(output_gradients), needed);
    const size_t nodes_before = program_.nodes().size();
    info.gradient(context);
    const std::vector<ValueId>& made = context.input_gradients();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!needed[i] || !made[i].valid()) continue;
      const bool is_own = std::count(made.begin(), made.end(), made[i]) == 1 &&
                          program_.value(made[i]).producer.valid() &&
                          program_.value(made[i]).producer.at() >= nodes_before;
      add(node.inputs[i], made[i], is_own);
    }
  }

  // `is_own`: nothing else is made of the contribution.
  void add(ValueId value, ValueId contribution, bool is_own) {
    ValueId& sum = gradients_[value.at()];
    if (!sum.valid()) {
      sum = contribution;
    } else if (is_own && add_in_place(value, sum, contribution)) {
      sum = contribution;
    } else {
      sum =
          builder_.value(OpKind::kAdd, {sum, contribution}, {}, program_.value(value).name + ".gradient_sum");
    }
  }

  // A weight that is read twice has one table of gradients: the op of the second use adds to that of the first.
  bool add_in_place(ValueId value, ValueId sum, ValueId contribution) {
    if (!program_.value(value).storage.valid() || program_.value(value).producer.valid()) return false;
    const Value& made = program_.value(contribution);
    Node& node = program_.node(made.producer);
    const std::optional<int64_t> input = accumulator_input(node.kind, made.output);
    const bool is_taken =
        input && *input < std::ssize(node.inputs) && node.inputs[static_cast<size_t>(*input)].valid();
    if (!input || is_taken || !(made.type == program_.type(sum))) return false;
    set_accumulator(node, *input, sum);
    program_.value(sum).role = Role::kGradient;
    return true;
  }

  Program& program_;
  OpBuilder builder_;
  std::vector<bool> needed_;
  std::vector<ValueId> gradients_;  // of the forward's values
  ValueId loss_;
};

// Micro-batches add to a parameter's gradient in place, so nothing else may read that value. If the parameter
// was an operand of an addition, its gradient is another value's too, or goes on to other nodes: then it gets
// a copy.
void separate_shared(Program& program, std::vector<ParameterGradient>& gradients) {
  const auto readers = program.readers();
  std::map<ValueId, int64_t> owners;
  for (const ParameterGradient& gradient : gradients) ++owners[gradient.gradient];
  OpBuilder builder(program);
  for (ParameterGradient& gradient : gradients) {
    if (owners.at(gradient.gradient) == 1 && readers[gradient.gradient.at()].empty()) continue;
    builder.set_region(program.node(program.value(gradient.gradient).producer).region);
    gradient.gradient = builder.value(OpKind::kCopy, {gradient.gradient}, {}, "gradient_copy");
  }
}

}  // namespace

std::vector<ParameterGradient> append_backward(Program& program, ValueId loss, ValueId seed) {
  const NodeId producer = program.value(loss).producer;
  CHECK(seed.valid() || (producer.valid() && op_info(program.node(producer).kind).is_loss),
        "the loss '{}' is no loss op's output: its gradient is to be given", program.value(loss).name);
  const auto forward_values = static_cast<int32_t>(program.values().size());
  Backward backward(program, loss, seed);
  backward.run();
  std::vector<ParameterGradient> gradients;
  for (int32_t i = 0; i < forward_values; ++i) {
    const Value& value = program.value(ValueId{i});
    if (!value.storage.valid() || value.producer.valid() || !is_trainable(program, value.storage)) continue;
    const ValueId gradient = backward.gradient(ValueId{i});
    if (!gradient.valid()) {
      throw user_error(
          "[parameter {}] expected a path from it to the loss, got none; use it in forward or freeze it",
          value.name);
    }
    gradients.push_back({value.storage, gradient});
  }
  separate_shared(program, gradients);
  for (const ParameterGradient& gradient : gradients) {
    program.value(gradient.gradient).role = Role::kGradient;
    program.value(gradient.gradient).name = program.state().storage(gradient.storage).name + ".gradient";
  }
  std::sort(gradients.begin(), gradients.end(),
            [](const auto& a, const auto& b) { return a.storage < b.storage; });
  for (size_t i = 0; i < program.state().parameters().size(); ++i) {
    const Parameter& parameter = program.state().parameters()[i];
    const bool found = std::any_of(gradients.begin(), gradients.end(), [&](const auto& gradient) {
      return gradient.storage == parameter.storage;
    });
    if (parameter.trainable && !found) {
      throw user_error(
          "[parameter {}] expected a path from it to the loss, got none; use it in forward or freeze it",
          parameter.name);
    }
  }
  return gradients;
}

}  // namespace shoehorn
