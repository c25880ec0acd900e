// The interface of gradient rules: a rule reads a node and the gradients of its outputs, appends nodes, and
// sets the gradients of the inputs.
#pragma once

#include <initializer_list>

#include "ops/op_builder.h"
#include "ops/op_info.h"

namespace shoehorn {

class GradientContext {
 public:
  GradientContext(OpBuilder& builder, NodeId node, std::vector<ValueId> output_gradients,
                  std::vector<bool> needed)
      : builder_(builder),
        node_(node),
        output_gradients_(std::move(output_gradients)),
        needed_(std::move(needed)),
        input_gradients_(needed_.size()) {}

  OpBuilder& builder() { return builder_; }
  const Node& node() const { return builder_.program().node(node_); }
  ValueId input(int64_t i) const {
    const auto& inputs = node().inputs;
    return i < static_cast<int64_t>(inputs.size()) ? inputs[static_cast<size_t>(i)] : ValueId{};
  }
  ValueId output(int64_t i) const { return node().outputs[static_cast<size_t>(i)]; }
  const TensorType& type(ValueId value) const { return builder_.program().type(value); }
  template <typename T>
  const T& attributes() const {
    return std::get<T>(node().attributes);
  }
  // The gradient of output i; invalid if the loss does not depend on that output.
  ValueId gradient(int64_t output) const { return output_gradients_[static_cast<size_t>(output)]; }
  // True if input i depends on anything trainable, so that its gradient is needed.
  bool needed(int64_t input) const {
    return input < static_cast<int64_t>(needed_.size()) && needed_[static_cast<size_t>(input)];
  }
  void set(int64_t input, ValueId gradient) { input_gradients_[static_cast<size_t>(input)] = gradient; }
  // The outputs of `node`, in their order, are the gradients of these inputs.
  void set_all(NodeId node, std::initializer_list<int64_t> inputs) {
    size_t output = 0;
    for (const int64_t input : inputs) set(input, builder_.program().node(node).outputs[output++]);
  }
  const std::vector<ValueId>& input_gradients() const { return input_gradients_; }

 private:
  OpBuilder& builder_;
  NodeId node_;
  std::vector<ValueId> output_gradients_;
  std::vector<bool> needed_;
  std::vector<ValueId> input_gradients_;
};

}  // namespace shoehorn
