// What a plan is made for: the kernels of a backend on a machine, here or elsewhere (exec/backend/backend.h).
#pragma once

#include <cstdint>

#include "graph/program.h"

namespace shoehorn {

inline constexpr int64_t kArenaAlignment = 64;  // bytes: a cache line, an AVX-512 register

class PlanTarget {
 public:
  virtual ~PlanTarget() = default;
  // Bytes of scratch that the node's kernel takes at the maximum of every count: a pure function of the
  // node's types and attributes and of the machine's profile (plan/machine_profile.h).
  virtual int64_t workspace_bytes(const Program& program, const Node& node) const = 0;
};

}  // namespace shoehorn
