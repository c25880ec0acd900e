// The memory of an address space while a program runs: bytes by role at each of its nodes.
#pragma once

#include <map>
#include <vector>

#include "plan/memory_plan.h"

namespace shoehorn {

struct MemoryTimeline {
  // By role, a value a node: the state's bytes (the same at each) and what lives in the space's transient
  // arena while the node runs. Padding between buffers is in none.
  std::map<Role, std::vector<int64_t>> bytes;
  int64_t peak_position = 0;  // the node at which the sum is largest
  int64_t peak_bytes = 0;
};

MemoryTimeline memory_timeline(const StateTable& state, const ProgramPlan& plan,
                               AddressSpace space = AddressSpace::kDevice);

}  // namespace shoehorn
