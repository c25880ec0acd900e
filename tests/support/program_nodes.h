// How many ops of a kind a program has, for tests of what is fused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "graph/program.h"

namespace shoehorn::test_support {

inline int64_t count_nodes(const Program& program, OpKind kind, std::optional<Phase> phase = {}) {
  return std::ranges::count_if(program.nodes(), [&](const Node& node) {
    return node.kind == kind && (!phase || node.region.phase == *phase);
  });
}

inline int64_t count_forward_nodes(const Program& program, OpKind kind) {
  return count_nodes(program, kind, Phase::kForward);
}

}  // namespace shoehorn::test_support
