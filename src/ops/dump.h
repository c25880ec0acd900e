// A program as text, one line a node, for people and for --dump_program.
#pragma once

#include <string>

#include "graph/program.h"

namespace shoehorn {

//   %17 attention_context float32[2048*, 1024] = matmul(%3, %4 weight@0) {layer 3 attention, forward}
std::string dump(const Program& program);
// Of these lines those of nodes that ranks issue together.
std::string dump_collectives(const Program& program);

}  // namespace shoehorn
