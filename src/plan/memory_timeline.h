// The memory of an address space over the nodes of a program, by role.
#pragma once

#include <map>
#include <vector>

#include "plan/memory_plan.h"

namespace shoehorn {

struct MemoryTimeline {
  // For each role one value per node: the bytes of the state (constant) plus those alive in the space's
  // transient arena while the node runs. Padding between buffers is not included.
  std::map<Role, std::vector<int64_t>> bytes;
  int64_t peak_position = 0;  // the node with the largest sum over roles
  int64_t peak_bytes = 0;
};

MemoryTimeline memory_timeline(const StateTable& state, const ProgramPlan& plan,
                               AddressSpace space = AddressSpace::kDevice);

}  // namespace shoehorn
