#include "passes/fuse_added_product.h"

#include <set>

#include "ops/added_product.h"
#include "ops/op_builder.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

constexpr size_t kAddend = 4;  // of a matmul's inputs

class SumFuser {
 public:
  // `kept`: gradients, which are read behind the program.
  SumFuser(Program& program, const std::vector<ParameterGradient>& kept) : program_(program) {
    const Readers readers = program.readers();
    for (size_t value = 0; value < program.values().size(); ++value)
      readers_.push_back(readers[value].size());
    for (const Program::Result& result : program.results()) ++readers_[result.value.at()];
    for (const ParameterGradient& gradient : kept) {
      ++readers_[gradient.gradient.at()];
      gradients_.insert(gradient.gradient);
    }
  }

  void run() {
    const size_t nodes = program_.nodes().size();
    for (size_t i = 0; i < nodes; ++i) {
      const Node sum = program_.nodes()[i];  // a copy: the table of nodes grows
      if (sum.kind != OpKind::kAdd || gradients_.contains(sum.outputs[0])) continue;
      // The second term first: the later of two products has what was made before as its addend.
      for (const size_t term : {size_t{1}, size_t{0}}) {
        if (!is_added_product(sum.inputs[term])) continue;
        join(NodeId{static_cast<int32_t>(i)}, sum, term);
        break;
      }
    }
    put_in_place(program_, nodes, in_place_of_);
  }

 private:
  bool is_added_product(ValueId value) const {
    const NodeId producer = program_.value(value).producer;
    if (!producer.valid() || value.at() >= readers_.size() || readers_[value.at()] != 1) return false;
    const Node& node = program_.node(producer);
    return node.kind == OpKind::kMatmul && node.inputs.size() <= kAddend && takes_addend({program_, node});
  }

  void join(NodeId id, const Node& sum, size_t term) {
    const NodeId producer = program_.value(sum.inputs[term]).producer;
    const Node product = program_.node(producer);
    std::vector<ValueId> inputs = product.inputs;
    inputs.resize(kAddend + 1);
    inputs[kAddend] = sum.inputs[1 - term];
    OpBuilder builder(program_);
    builder.set_region(product.region);
    const ValueId from = sum.outputs[0];
    const ValueId to = builder.value(OpKind::kMatmul, std::move(inputs), product.attributes, "added_product");
    program_.value(to).role = program_.value(from).role;
    program_.value(to).name = program_.value(from).name;
    program_.replace_uses(from, to);
    in_place_of_[id] = program_.value(to).producer;
    in_place_of_[producer] = {};
  }

  Program& program_;
  std::vector<size_t>
      readers_;  // of each value that was there before: nodes, results, and what is behind the program
  std::set<ValueId> gradients_;
  Replacements in_place_of_;
};

}  // namespace

void fuse_added_product(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) {
    const bool has_gradients = program.kind() == ProgramKind::kTrainStep && !family.gradients.empty();
    SumFuser(program, has_gradients ? family.gradients[static_cast<size_t>(program.bucket())]
                                    : std::vector<ParameterGradient>{})
        .run();
  }
}

}  // namespace shoehorn
