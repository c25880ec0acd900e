// A recompute set: what the forward makes, the backward reads, and is not kept in between. It names nodes of the
// forward; `rematerialize` makes their outputs again in front of what reads them.
//
// The name of a node, "layer.3.feed_forward.product", is its place in the model and the name of its first output, with
// a number where several are alike: "layer.3.attention.product.1". It does not depend on sizes, types, micro-batches or
// their order, so that a set is good for other plans of the model with the same passes.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/program.h"

namespace shoehorn {

// By node; empty for those that are not of the forward of micro-batch 0.
std::vector<std::string> forward_names(const Program& program);

// True for the nodes of the set. A step's program before its micro-batches are told apart.
std::vector<bool> nodes_of_set(const Program& program, const std::set<std::string>& names);

// UserError naming the first of the names that the program has not.
void check_recompute_set(const Program& program, const std::set<std::string>& names);

// The nodes of the forward whose outputs other phases read, weight casts aside: what a set is made of. In a program that
// `rematerialize` has seen these are the ones whose outputs are kept.
std::vector<NodeId> nodes_read_later(const Program& program);

// A JSON array of names, or an object with such an array under "recompute_set", as `plan --json` prints. UserError for anything
// else; SystemError if the file cannot be read.
std::set<std::string> load_recompute_set(const std::filesystem::path& file);

}  // namespace shoehorn
