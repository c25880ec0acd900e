// What several passes do with a program's nodes.
#pragma once

#include <map>
#include <vector>

#include "graph/program.h"

namespace shoehorn {

// New nodes, behind the `old_nodes` of a program as they were made, by the old node that they belong to.
using NewNodes = std::map<NodeId, std::vector<NodeId>>;

// Moves them to right before, or right behind, their node; new nodes that are not among them go.
void place_before(Program& program, size_t old_nodes, const NewNodes& made);
void place_behind(Program& program, size_t old_nodes, const NewNodes& made);

// The product that the loss is computed from, past what is added to it; invalid where there is no loss.
NodeId logits_product(const Program& program);

}  // namespace shoehorn
