// One entry of the op table: everything the system knows of an op besides its kernels.
//
// Adding an op: its OpKind, its OpInfo here in ops/, one kernel file a backend, a naive double-precision
// reference and a test; nothing else changes. docs/how-to-add-an-op.md walks through one.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/program.h"

namespace shoehorn {

class GradientContext;
class OpBuilder;

// A node seen by the rules of its op.
struct OpContext {
  const Program& program;
  const Node& node;

  bool has(int64_t input) const {
    return input < static_cast<int64_t>(node.inputs.size()) &&
           node.inputs[static_cast<size_t>(input)].valid();
  }
  const TensorType& type(int64_t input) const {
    return program.type(node.inputs[static_cast<size_t>(input)]);
  }
  const TensorType& output_type(int64_t output) const {
    return program.type(node.outputs[static_cast<size_t>(output)]);
  }
  template <typename T>
  const T& attributes() const {
    const T* found = std::get_if<T>(&node.attributes);
    CHECK(found != nullptr, "a node carries another op's attributes");
    return *found;
  }
};

// Work at the maximum of every count. A product of M×K by K×N has 2·M·N·K flops. Bytes are those that must
// cross the memory bus when nothing is cached: every input read once, every output written once, unless the
// op says otherwise.
struct Cost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

// Output `output` may lie (or, for state, must lie) in the bytes of input `input`.
struct AliasRule {
  int64_t output;
  int64_t input;
  bool must;
  int64_t offset_elements = 0;  // of a view: where in the input the output begins
};

// The class of work, as the literature splits a transformer's operations ("Data movement is all you need",
// 2020).
enum class OpClass : uint8_t { kContraction, kNormalization, kElementwise, kMovement, kUpdate };
// "tensor contractions", "statistical normalizations", …
std::string_view op_class_name(OpClass op_class);

struct WeightInput {
  int64_t input;
  bool is_table = false;  // rows are looked up in it, so that it is kept in fp32 where its master is
};

// A chain of ops that one op does the work of. Each link reads output 0 of the link before it, which nothing else
// reads; output 0 of the last is output 0 of the op. The pass `pass` puts the op in its place (passes/fuse.h).
//
//   product ─► bias_add   ─►  matmul with a bias:
//   {.pass = "fuse_bias", .name = "linear", .links = {{OpKind::kMatmul}, {OpKind::kBiasAdd}},
//    .inputs = {{0, 0}, {0, 1}, {1, 1}}, .attributes = attributes_of_link<0>}
struct FusedChain {
  struct Link {
    OpKind kind;
    bool is_optional = false;  // never of the first and the last
    int64_t input = 0;         // which of its inputs the link before makes
  };
  struct Input {
    size_t link;
    int64_t input;
  };
  using Nodes = std::span<const Node* const>;  // one a link; null: an optional link that is absent

  std::string_view pass;
  std::string_view name;  // of what the op makes
  std::vector<Link> links;
  // Of the op, which input of which link each is; absent where the link or its input is. A link with an input that
  // is neither here nor made by the link before belongs to no chain: the op would forget it.
  std::vector<Input> inputs;
  Attributes (*attributes)(Nodes nodes);
};

// FusedChain::attributes of an op that has those of one link.
template <size_t kLink>
Attributes attributes_of_link(FusedChain::Nodes nodes) {
  return nodes[kLink]->attributes;
}

struct OpInfo {
  OpKind kind;
  std::string_view name;
  OpClass op_class;
  int64_t min_inputs;
  int64_t max_inputs;  // -1: any number
  // The types of the outputs; throws UserError on types or shapes that do not go together.
  std::vector<TensorType> (*infer)(const OpContext&);
  Cost (*cost)(const OpContext&);
  // Nothing: a fresh output for each.
  std::vector<AliasRule> (*aliases)(const OpContext&) = nullptr;
  // Adds the gradients of the inputs; null where the op has none.
  void (*gradient)(GradientContext&) = nullptr;
  // The inputs whose rows those of output 0 are made of, each of the same row; what the others say holds for
  // all rows. Null or empty: the op mixes rows.
  std::vector<int64_t> (*row_inputs)(const OpContext&) = nullptr;
  // The input that may be a weight of 16 bits, with which output 0 comes in the type that set_output says.
  std::optional<WeightInput> weight = {};
  void (*set_output)(Attributes& attributes, DType dtype) = nullptr;
  // Whether infinities in its output are no error.
  bool makes_infinities = false;
  // Output 0, f32[1], is a loss: a backward may begin there without a value for its gradient, which then is one.
  bool is_loss = false;
  // For each output that is a parameter's gradient: the optional input that it is added to. Such an output
  // must lie in that input's bytes where it is given.
  struct Accumulator {
    int64_t output;
    int64_t input;
  };
  std::vector<Accumulator> accumulators = {};
  // Ways to make output 0 again, the cheapest first: each appends a node that gives it bit for bit from the
  // node's inputs, or from outputs that its backward reads, at little cost beside the bytes of keeping it.
  // None: output 0 is kept where the backward reads it.
  std::vector<ValueId (*)(OpBuilder& builder, const Node& node)> make_again = {};
  // The chains that it stands for, those tried first in front. No two ops have the same one.
  std::vector<FusedChain> fuses = {};
};

// The table. Every OpKind has an entry.
const OpInfo& op_info(OpKind kind);

// Whether such an op is a product with what may be a weight.
bool multiplies_weight(OpKind kind);

// The input that output `output` of such an op is added to where it is given; none: there is no such input.
std::optional<int64_t> accumulator_input(OpKind kind, int64_t output);

// Makes the output of a node, which has such an input, be added to `accumulator`.
void set_accumulator(Node& node, int64_t input, ValueId accumulator);

// The values of a sum that grows in place, from `value`, which is all of it, to its first term.
std::vector<ValueId> terms_in_place(const Program& program, ValueId value);

// The alias rules of a node: its op's own and those of the accumulators given.
std::vector<AliasRule> alias_rules(const Program& program, const Node& node);

// Where a node's outputs lie: where a copy goes to; for every other op, where its inputs are.
AddressSpace output_space(const Program& program, const Node& node);

// Every input read once, every output written once, `flops_per_output` for each element of output 0.
Cost streaming_cost(const OpContext& context, double flops_per_output);

// Throws UserError "[op] expected …, got …" naming the op and the value.
[[noreturn]] void fail_type(const OpContext& context, int64_t input, std::string_view expected);

}  // namespace shoehorn
