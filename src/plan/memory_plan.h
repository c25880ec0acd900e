// The memory of a run, to the byte, before it runs.
//
// Two arenas in the host's address space: `persistent` holds every storage of the state table, one after the
// other; `transient` holds what a program makes while it runs, and is as large as the largest program of the
// family needs. A value of a program lies in a buffer; views, in-place outputs and updated state share the
// buffer of their source. A buffer is live from the node that makes it to the last node that reads it;
// buffers live at the same time never overlap (checked in every plan).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "plan/backend.h"

namespace shoehorn {

enum class ArenaKind : uint8_t { kPersistent, kTransient };

struct Location {
  ArenaKind arena = ArenaKind::kTransient;
  int64_t offset = -1;  // bytes; -1: the value is never made
};

// What lives in the transient arena and when, for reports and for the poison mode of tests.
struct Buffer {
  int64_t first;  // position of the node that makes it
  int64_t last;   // position of the last node that reads it
  int64_t bytes;
  int64_t offset;
  Role role;
  Region region;
  std::string name;
};

struct ProgramPlan {
  std::string program;
  std::vector<Location> values;           // by value id
  std::vector<int64_t> workspace_offset;  // by node, in the transient arena; -1: none
  std::vector<int64_t> workspace_bytes;   // by node
  std::vector<Buffer> buffers;            // workspaces included
  int64_t bytes = 0;                      // of the transient arena
  int64_t lower_bound_bytes = 0;          // the largest live sum
  int64_t peak_position = 0;              // the node at which it is reached
};

struct MemoryPlan {
  std::vector<int64_t> storage_offset;  // by storage id, in the persistent arena
  int64_t persistent_bytes = 0;
  int64_t transient_bytes = 0;
  int64_t transient_lower_bound_bytes = 0;
  std::vector<ProgramPlan> programs;

  int64_t arena_bytes() const { return persistent_bytes + transient_bytes; }
  const ProgramPlan& largest() const;
};

// Plans a family of programs over one state table.
MemoryPlan plan_memory(const StateTable& state, const std::vector<Program>& programs, const Backend& backend);

// Bytes of both arenas by role and by component. The transient arena is split as it stands at its peak; what
// packing and alignment leave free there is "slack". The values add up to arena_bytes().
std::map<std::string, int64_t> bytes_by_role(const StateTable& state, const MemoryPlan& plan);
std::map<std::string, int64_t> bytes_by_component(const StateTable& state, const MemoryPlan& plan);

}  // namespace shoehorn
