// Plans the memory of a run, to the byte, before it runs.
//
// Each address space that is used has two arenas. The persistent one holds every storage of the state table,
// one after the other. The transient one holds the values of a running program; it is as large as the largest
// program of the family needs. A value lies in a buffer; views, in-place outputs and updated state share the
// buffer of their source. The lifetime of a buffer is from the node that makes it to the last node that reads
// it; what a node of another lane reads or writes lives until lane 0 has waited for that node. Buffers that
// are alive at the same time never overlap (every plan is checked).
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "plan/plan_target.h"

namespace shoehorn {

enum class ArenaKind : uint8_t { kPersistent, kTransient };

// An array indexed by address space.
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
  int64_t offset = -1;  // bytes; -1: no node makes the value
  AddressSpace space = AddressSpace::kDevice;
};

// A buffer of a transient arena with its lifetime, for reports and for the tests' poison mode.
struct Buffer {
  int64_t first;  // position of the node that makes it (in Program::nodes)
  int64_t last;   // position of the last node that reads it, or at which another lane may still use it
  int64_t bytes;
  int64_t offset;
  Role role;
  Region region;
  std::string name;
  AddressSpace space = AddressSpace::kDevice;
};

// A program's need of a space's transient arena.
struct TransientPlan {
  int64_t bytes = 0;
  int64_t lower_bound_bytes = 0;  // the largest sum of live bytes at any position
  int64_t peak_position = 0;      // the position of that sum
};

struct ProgramPlan {
  std::vector<Location> values;           // by value id
  std::vector<int64_t> workspace_offset;  // by node, in its space's transient arena; -1: none
  std::vector<int64_t> workspace_bytes;   // by node
  std::vector<Buffer> buffers;            // workspaces included
  BySpace<TransientPlan> spaces;

  const TransientPlan& device() const { return spaces[AddressSpace::kDevice]; }
};

// The two arenas of a space.
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
  int64_t arena_bytes() const;  // over all spaces
  const ProgramPlan& program(ProgramId id) const { return programs[id.at()]; }
  // The program that needs the most of a space's transient arena.
  ProgramId largest(AddressSpace space = AddressSpace::kDevice) const;
};

// How long a lower arena is looked for.
enum class PackGoal : uint8_t {
  kLeast,  // until the effort is spent (plan/pack.h)
  kNearly,  // until it is within 1/1024 of the lower bound: to compare many plans, of which one is then made again
};

// Plans a family of programs that share one state table.
MemoryPlan plan_memory(const StateTable& state, const std::vector<Program>& programs,
                       const PlanTarget& target, PackGoal goal = PackGoal::kLeast);

// Bytes of all arenas by role and by component. A transient arena is split by its content at the peak; space
// that packing and alignment leave free is "slack". The values add up to arena_bytes().
std::map<std::string, int64_t> bytes_by_role(const StateTable& state, const MemoryPlan& plan);
std::map<std::string, int64_t> bytes_by_component(const StateTable& state, const MemoryPlan& plan);
// By component, with the same component of all layers in one entry: "attention (all layers)".
std::map<std::string, int64_t> bytes_by_component_kind(const StateTable& state, const MemoryPlan& plan);
// By both, of all layers together: "weight of attention".
std::map<std::string, int64_t> bytes_by_role_and_component(const StateTable& state, const MemoryPlan& plan);

}  // namespace shoehorn
