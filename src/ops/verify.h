// The executable specification of a program. The pass pipeline calls it after every pass. InternalError
// naming the node and the rule:
//
//   1. every input is made before it is read, or is version 0 of a state;
//   2. outputs have the types that the op's shape rule gives, and point back to their node;
//   3. a read of a state has the type of its storage; an update consumes the newest version of its state, and
//      no read of an older version (or of a view of one) is ordered after it;
//   4. a value that an output must lie in is read by no later node;
//   5. results exist;
//   6. the parameters of the state table lie in their storages, beside each other.
#pragma once

#include "graph/program.h"

namespace shoehorn {

void verify(const Program& program);

// Follows a chain of views to the value that has the bytes. Any other value is its own root.
ValueId view_root(const Program& program, ValueId value);

}  // namespace shoehorn
