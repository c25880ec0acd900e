// What a backend offers: how much workspace a node needs, and a prepared call of it.
//
// Workspace is a pure function of the node's types and attributes and of the machine profile the backend was
// made for (threads, instruction set, library versions): the planner asks before anything is reserved.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "graph/program.h"

namespace shoehorn {

// Where a node's values lie, once memory is reserved. Absent inputs are null. Alignment is kArenaAlignment at
// least for values that are not views.
struct NodeBuffers {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// A node ready to run: primitives made, pointers bound. `counts[c]` is the run-time value of the program's
// count c. A call allocates nothing.
using PreparedNode = std::function<void(const int64_t* counts)>;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual int64_t workspace_bytes(const Program& program, const Node& node) const = 0;
  // Generates the machine code that the node runs; prepare() then adds none. Its size is part of the
  // process's overhead, so that it is made before that is measured, and only for the programs that will run.
  virtual void compile(const Program&, const Node&) const {}
  // Gives back the code that no prepared node uses.
  virtual void release_unused_code() const {}
  // Throws UserError where this backend has no kernel for the node, naming it.
  virtual PreparedNode prepare(const Program& program, const Node& node,
                               const NodeBuffers& buffers) const = 0;
};

inline constexpr int64_t kArenaAlignment = 64;  // bytes: a cache line, an AVX-512 register

}  // namespace shoehorn
