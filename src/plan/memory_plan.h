// The memory of a run, to the byte, before it runs.
//
// Two arenas in each address space that is used: `persistent` holds every storage of the state table, one
// after the other; `transient` holds what a program makes while it runs, and is as large as the largest
// program of the family needs. A value of a program lies in a buffer; views, in-place outputs and updated
// state share the buffer of their source. A buffer is live from the node that makes it to the last node that
// reads it; what a node of another lane reads and writes, until lane 0 has waited for it. Buffers live at the
// same time never overlap (checked in every plan).
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "plan/plan_target.h"

namespace shoehorn {

enum class ArenaKind : uint8_t { kPersistent, kTransient };

// One of something for each address space.
template <typename T>
class BySpace {
 public:
  T& operator[](AddressSpace space) { return items_[static_cast<size_t>(space)]; }
  const T& operator[](AddressSpace space) const { return items_[static_cast<size_t>(space)]; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::array<T, kAddressSpaces> items_{};
};
inline constexpr std::array<AddressSpace, kAddressSpaces> kEveryAddressSpace = {
    AddressSpace::kDevice, AddressSpace::kPinnedHost, AddressSpace::kHost, AddressSpace::kDisk};

struct Location {
  ArenaKind arena = ArenaKind::kTransient;
  int64_t offset = -1;  // bytes; -1: the value is never made
  AddressSpace space = AddressSpace::kDevice;
};

// What lives in a transient arena and when, for reports and for the poison mode of tests.
struct Buffer {
  int64_t first;  // position of the node that makes it
  int64_t last;   // position of the last node that reads it, or at which another lane may still use it
  int64_t bytes;
  int64_t offset;
  Role role;
  Region region;
  std::string name;
  AddressSpace space = AddressSpace::kDevice;
};

// What a program needs of the transient arena of a space.
struct TransientPlan {
  int64_t bytes = 0;
  int64_t lower_bound_bytes = 0;  // the largest live sum
  int64_t peak_position = 0;      // the node at which it is reached
};

struct ProgramPlan {
  std::vector<Location> values;           // by value id
  std::vector<int64_t> workspace_offset;  // by node, in the transient arena of its space; -1: none
  std::vector<int64_t> workspace_bytes;   // by node
  std::vector<Buffer> buffers;            // workspaces included
  BySpace<TransientPlan> spaces;

  const TransientPlan& device() const { return spaces[AddressSpace::kDevice]; }
};

// The arenas of a space.
struct SpacePlan {
  int64_t persistent_bytes = 0;
  int64_t transient_bytes = 0;
  int64_t transient_lower_bound_bytes = 0;

  int64_t bytes() const { return persistent_bytes + transient_bytes; }
};

struct MemoryPlan {
  std::vector<int64_t> storage_offset;  // by storage id, in the persistent arena of its space
  BySpace<SpacePlan> spaces;
  std::vector<ProgramPlan> programs;  // by program id

  const SpacePlan& device() const { return spaces[AddressSpace::kDevice]; }
  int64_t arena_bytes() const;  // of every space
  const ProgramPlan& program(ProgramId id) const { return programs[id.at()]; }
  // The program that needs most of a space's transient arena.
  ProgramId largest(AddressSpace space = AddressSpace::kDevice) const;
};

// Plans a family of programs over one state table.
MemoryPlan plan_memory(const StateTable& state, const std::vector<Program>& programs,
                       const PlanTarget& target);

// Bytes of all arenas by role and by component. A transient arena is split as it stands at its peak; what
// packing and alignment leave free there is "slack". The values add up to arena_bytes().
std::map<std::string, int64_t> bytes_by_role(const StateTable& state, const MemoryPlan& plan);
std::map<std::string, int64_t> bytes_by_component(const StateTable& state, const MemoryPlan& plan);
// The same with one entry for a component of all layers: "attention (all layers)".
std::map<std::string, int64_t> bytes_by_component_kind(const StateTable& state, const MemoryPlan& plan);

}  // namespace shoehorn
