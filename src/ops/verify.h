// The executable specification of a program. The pass pipeline calls it after every pass. InternalError
// naming the node and the rule:
//
//   1. every input is made before it is read, or is version 0 of a storage;
//   2. outputs have the types that the op infers, and point back to their node;
//   3. a read of a storage has the storage's type; an update consumes the newest version, and no read of an
//      older version (or of a view of one) comes after the update;
//   4. if an output must overlay an input, no later node reads that input;
//   5. results exist.
#pragma once

#include "graph/program.h"

namespace shoehorn {

void verify(const Program& program);

// Follows a chain of views to the value that has the bytes. Any other value is its own root.
ValueId view_root(const Program& program, ValueId value);

}  // namespace shoehorn
