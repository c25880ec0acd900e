// Operations on a program's nodes that several passes share.
#pragma once

#include <map>
#include <vector>

#include "graph/program.h"

namespace shoehorn {

// New nodes, appended behind the first `old_nodes` nodes of a program; grouped by the old node that they
// belong to.
using NewNodes = std::map<NodeId, std::vector<NodeId>>;

// Moves them to directly before or behind that node. New nodes that are not in `made` are dropped.
void place_before(Program& program, size_t old_nodes, const NewNodes& made);
void place_behind(Program& program, size_t old_nodes, const NewNodes& made);

// For some of the old nodes the new node that stands in its place; invalid: none does, and the old one is dead.
using Replacements = std::map<NodeId, NodeId>;

// Puts them there.
void put_in_place(Program& program, size_t old_nodes, const Replacements& in_place_of);

// The product whose result is the logits, looking through what is added to it; invalid if the program has no
// loss, or one that makes its logits itself.
NodeId logits_product(const Program& program);

}  // namespace shoehorn
