#include "passes/fuse.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ops/op_info.h"
#include "passes/node_fuser.h"

namespace shoehorn {

namespace {

// Puts the op that stands for a chain where the chain ended.
class ChainFuser {
 public:
  explicit ChainFuser(Program& program) : program_(program), fuser_(program) {}

  void run(const FusedChain& chain, OpKind fused) {
    for (size_t i = 0; i < fuser_.nodes(); ++i) {
      const NodeId last{static_cast<int32_t>(i)};
      if (const auto nodes = match(chain, last)) fuse(chain, fused, last, *nodes);
    }
    fuser_.place();
  }

 private:
  // The nodes of the chain that ends in `last`, a link each; null: an optional link that is absent.
  std::optional<std::vector<const Node*>> match(const FusedChain& chain, NodeId last) const {
    if (program_.node(last).kind != chain.links.back().kind) return std::nullopt;
    std::vector<const Node*> nodes(chain.links.size(), nullptr);
    nodes.back() = &program_.node(last);
    size_t reader = chain.links.size() - 1;
    for (size_t link = reader; link-- > 0;) {
      const ValueId made = nodes[reader]->inputs[static_cast<size_t>(chain.links[reader].input)];
      const FusedChain::Link& maker = chain.links[link];
      nodes[link] = maker.becomes < 0 ? fuser_.sole(made, maker.kind) : fuser_.maker(made, maker.kind, last);
      if (nodes[link] != nullptr)
        reader = link;
      else if (!chain.links[link].is_optional)
        return std::nullopt;
    }
    for (size_t link = 0; link < nodes.size(); ++link) {
      if (nodes[link] != nullptr && !knows_inputs(chain, link, *nodes[link])) return std::nullopt;
    }
    for (size_t output = chain.outputs; output < nodes.back()->outputs.size(); ++output) {
      if (fuser_.readers(nodes.back()->outputs[output]) > 0) return std::nullopt;
    }
    if (chain.applies != nullptr && !chain.applies(program_, nodes)) return std::nullopt;
    return nodes;
  }

  // Whether each input of a link's node is made by the chain or goes on to the fused op.
  static bool knows_inputs(const FusedChain& chain, size_t link, const Node& node) {
    for (int64_t i = 0; i < std::ssize(node.inputs); ++i) {
      if (!node.inputs[static_cast<size_t>(i)].valid() || (link > 0 && i == chain.links[link].input))
        continue;
      const bool goes_on =
          std::any_of(chain.inputs.begin(), chain.inputs.end(),
                      [&](const FusedChain::Input& input) { return input.link == link && input.input == i; });
      if (!goes_on) return false;
    }
    return true;
  }

  void fuse(const FusedChain& chain, OpKind fused, NodeId last, const std::vector<const Node*>& nodes) {
    std::vector<ValueId> inputs;
    for (const FusedChain::Input& input : chain.inputs) {
      const Node* node = nodes[input.link];
      const bool is_there = node != nullptr && input.input < std::ssize(node->inputs);
      inputs.push_back(is_there ? node->inputs[static_cast<size_t>(input.input)] : ValueId{});
    }
    const std::vector<ValueId> results = nodes.back()->outputs;
    const size_t inner = nodes.size() - 2;
    const int64_t becomes = chain.links[inner].becomes;
    // What goes on to the next block belongs to its own: there the value lives on when layers are recomputed.
    const Node& place = becomes < 0 ? *nodes.back() : *nodes[inner];
    const ValueId inner_value = becomes < 0 ? ValueId{} : place.outputs[0];
    const Region region = place.region;
    Attributes attributes = chain.attributes(nodes);
    const NodeId made =
        fuser_.append(last, region, fused, std::move(inputs), std::move(attributes), std::string(chain.name));
    for (size_t output = 0; output < chain.outputs; ++output)
      program_.replace_uses(results[output], program_.node(made).outputs[output]);
    if (becomes >= 0)
      program_.replace_uses(inner_value, program_.node(made).outputs[static_cast<size_t>(becomes)]);
  }

  Program& program_;
  NodeFuser fuser_;
};

// Every chain of the op table that is this pass's.
void fuse_chains(ProgramFamily& family, std::string_view pass) {
  for (size_t i = 0; i < static_cast<size_t>(OpKind::kOpKindCount); ++i) {
    const auto fused = static_cast<OpKind>(i);
    for (const FusedChain& chain : op_info(fused).fuses) {
      if (chain.pass != pass) continue;
      for (Program& program : family.programs) ChainFuser(program).run(chain, fused);
    }
  }
}

}  // namespace

void fuse_residual_norm(ProgramFamily& family, const StepOptions&) {
  fuse_chains(family, "fuse_residual_norm");
}

void fuse_norm_rotary(ProgramFamily& family, const StepOptions&) {
  fuse_chains(family, "fuse_norm_rotary");
}

void fuse_gated_activation(ProgramFamily& family, const StepOptions&) {
  fuse_chains(family, "fuse_gated_activation");
}

void fuse_bias_activation(ProgramFamily& family, const StepOptions&) {
  fuse_chains(family, "fuse_bias_activation");
}

void fuse_bias(ProgramFamily& family, const StepOptions&) {
  fuse_chains(family, "fuse_bias");
}

void fuse_vocabulary_loss(ProgramFamily& family, const StepOptions&) {
  fuse_chains(family, "fuse_vocabulary_loss");
}

}  // namespace shoehorn
