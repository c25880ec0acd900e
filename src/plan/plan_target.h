// The target of a plan: the kernels of a backend on a machine, this one or another (exec/backend/backend.h).
#pragma once

#include <cstdint>

#include "graph/program.h"

namespace shoehorn {

inline constexpr int64_t kArenaAlignment = 64;  // bytes: a cache line, an AVX-512 register

class PlanTarget {
 public:
  virtual ~PlanTarget() = default;
  // Size of the scratch that the node's kernel needs with every count at its maximum. A pure function of the
  // node's types and attributes and of the machine's profile (plan/machine_profile.h).
  virtual int64_t workspace_bytes(const Program& program, const Node& node) const = 0;
};

}  // namespace shoehorn
