#include "passes/fuse_vocabulary_gradient.h"

#include "ops/op_builder.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

ValueId input_of(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : ValueId{};
}

class GradientFuser {
 public:
  GradientFuser(Program& program, std::vector<ParameterGradient>& gradients)
      : program_(program), gradients_(gradients) {}

  void run() {
    const size_t nodes = program_.nodes().size();
    for (size_t i = 0; i < nodes; ++i) {
      const Node gradient = program_.nodes()[i];  // a copy: the table of nodes grows
      if (gradient.kind == OpKind::kLinearCrossEntropyGrad && is_known_at_the_loss(gradient))
        join(NodeId{static_cast<int32_t>(i)}, gradient);
    }
    put_in_place(program_, nodes, in_place_of_);
  }

 private:
  // Whether all that the gradients are made of is there where the loss is.
  bool is_known_at_the_loss(const Node& gradient) const {
    const ValueId seed = input_of(gradient, 6);
    const bool is_state = !seed.valid() || !program_.value(seed).producer.valid();
    return is_state && !input_of(gradient, 7).valid();
  }

  void join(NodeId id, const Node& gradient) {
    const NodeId loss = program_.value(gradient.inputs[4]).producer;
    const std::vector<ValueId> loss_outputs = program_.node(loss).outputs;
    std::vector<ValueId> inputs(gradient.inputs.begin(), gradient.inputs.begin() + 4);
    inputs.push_back(input_of(gradient, 6));
    OpBuilder builder(program_);
    builder.set_region(program_.node(loss).region);
    const NodeId made = builder.add(OpKind::kLinearCrossEntropyWithGrad, std::move(inputs),
                                    gradient.attributes, "vocabulary_loss");
    const std::vector<ValueId> outputs = program_.node(made).outputs;
    for (size_t i = 0; i < loss_outputs.size(); ++i) replace(loss_outputs[i], outputs[i]);
    for (size_t i = 0; i < gradient.outputs.size(); ++i)
      replace(gradient.outputs[i], outputs[loss_outputs.size() + i]);
    in_place_of_[loss] = made;
    in_place_of_[id] = {};
  }

  void replace(ValueId from, ValueId to) {
    program_.value(to).role = program_.value(from).role;
    program_.value(to).name = program_.value(from).name;
    program_.replace_uses(from, to);
    for (ParameterGradient& gradient : gradients_) {
      if (gradient.gradient == from) gradient.gradient = to;
    }
  }

  Program& program_;
  std::vector<ParameterGradient>& gradients_;
  Replacements in_place_of_;
};

}  // namespace

void fuse_vocabulary_gradient(ProgramFamily& family, const StepOptions&) {
  for (const ProgramId step : family.all(ProgramKind::kTrainStep)) {
    Program& program = family.program(step);
    GradientFuser(program, family.gradients[static_cast<size_t>(program.bucket())]).run();
  }
}

}  // namespace shoehorn
