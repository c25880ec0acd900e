// One entry of the op table: everything that the system knows of an op, except its kernels.
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

// A node as the functions of its op's entry see it.
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

// The work of a node with every count at its maximum. A product of M×K by K×N has 2·M·N·K flops. Bytes are
// the memory traffic without caching: every input read once and every output written once, unless the op's
// entry says otherwise.
struct Cost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

// The bytes of output `output` may overlay those of input `input`; with `required` they have to (views, updated
// state).
struct AliasRule {
  int64_t output;
  int64_t input;
  bool required;
  int64_t offset_elements = 0;  // views: where the output begins in the input
};

// Classes of work, as in Ivanov et al., "Data movement is all you need" (2020), for a transformer's
// operations.
enum class OpClass : uint8_t { kContraction, kNormalization, kElementwise, kMovement, kUpdate };
// "tensor contractions", "statistical normalizations", …
std::string_view op_class_name(OpClass op_class);

struct WeightInput {
  int64_t input;
  bool is_table = false;  // rows are looked up in it; it stays fp32 if there are masters
};

// A chain of ops that one op does the work of. Each link reads output 0 of the link before it, which nothing else
// reads unless the op has it too (`becomes`); the first outputs of the last are those of the op. The pass `pass` puts the op in
// its place (passes/fuse.h).
//
//   product ─► bias_add   ─►  matmul with a bias:
//   {.pass = "fuse_bias", .name = "linear", .links = {{OpKind::kMatmul}, {OpKind::kBiasAdd}},
//    .inputs = {{0, 0}, {0, 1}, {1, 1}}, .attributes = attributes_of_link<0>}
struct FusedChain {
  struct Link {
    OpKind kind;
    bool is_optional = false;  // never of the first and the last
    int64_t input = 0;         // which of its inputs the link before makes
    // The output of the op that its value is; -1: none. Others may then read it behind the chain: the sum of a pre-norm
    // block goes on to the next block. Of the link before the last only, which is not optional.
    int64_t becomes = -1;
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
  // Whether nodes that match are such a chain: what the links alone do not say. Null: they always are.
  bool (*applies)(const Program& program, Nodes nodes) = nullptr;
  // The first outputs of the last link that are the same outputs of the op. Where others are read, it is no chain.
  size_t outputs = 1;
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
  // The types of the outputs. Throws UserError if the inputs' types or shapes do not fit together.
  std::vector<TensorType> (*infer)(const OpContext&);
  Cost (*cost)(const OpContext&);
  // Null: every output gets bytes of its own.
  std::vector<AliasRule> (*aliases)(const OpContext&) = nullptr;
  // Appends nodes that compute the gradients of the inputs. Null: the op has no gradient.
  void (*gradient)(GradientContext&) = nullptr;
  // The inputs of which row r determines row r of output 0, given the other inputs as a whole. Null or empty:
  // the op mixes rows.
  std::vector<int64_t> (*row_inputs)(const OpContext&) = nullptr;
  // The input that may be a 16-bit weight; set_output then chooses the type of output 0.
  std::optional<WeightInput> weight = {};
  void (*set_output)(Attributes& attributes, DType dtype) = nullptr;
  // True if infinities in the output are no error.
  bool makes_infinities = false;
  // True if output 0, f32[1], is a loss: a backward may begin there, with 1 as its gradient.
  bool is_loss = false;
  // For each output that is a parameter's gradient: the optional input that it is added to. If that input is
  // present, the output lies in its bytes.
  struct Accumulator {
    int64_t output;
    int64_t input;
  };
  std::vector<Accumulator> accumulators = {};
  // Ways to recompute output 0, cheapest first. Each appends a node that yields it bit for bit, from the
  // node's inputs or from outputs that the backward reads anyway, at a cost that is small beside keeping the
  // bytes. Empty: output 0 is kept if the backward reads it.
  std::vector<ValueId (*)(OpBuilder& builder, const Node& node)> recompute = {};
  // The chains that it stands for, those tried first in front. No two ops have the same one.
  std::vector<FusedChain> fuses = {};
};

// The table. Every OpKind has an entry.
const OpInfo& op_info(OpKind kind);

// The bytes that a node makes a rank send to others; 0 for ops within a rank.
int64_t sent_bytes(const OpContext& context, int64_t rank);

// Whether such an op is a product with what may be a weight.
bool multiplies_weight(OpKind kind);

// The input that output `output` of such an op is added to where it is given; none: there is no such input.
std::optional<int64_t> accumulator_input(OpKind kind, int64_t output);

// Makes the node add its output to `accumulator`, at the optional input `input` (see accumulator_input).
void set_accumulator(Node& node, int64_t input, ValueId accumulator);

// For a sum that grows in place: the values from `value`, the whole sum, back to its first term.
std::vector<ValueId> terms_in_place(const Program& program, ValueId value);

// The alias rules of a node: those of its op, and those of the accumulators that are present.
std::vector<AliasRule> alias_rules(const Program& program, const Node& node);

// The address space of a node's outputs: the destination of a copy; for every other op, that of its inputs.
AddressSpace output_space(const Program& program, const Node& node);

// The cost of reading every input once and writing every output once, with `flops_per_output` per element of
// output 0.
Cost streaming_cost(const OpContext& context, double flops_per_output);

// Throws UserError "[op] expected …, got …" naming the op and the value.
[[noreturn]] void fail_type(const OpContext& context, int64_t input, std::string_view expected);

}  // namespace shoehorn
