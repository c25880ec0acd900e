// The buffers of a program's transient arenas before they have places: which buffer each value lies in, and how long each
// buffer lives (plan/memory_plan.h says by which rules). Cheap beside packing, and enough to know the live bytes at each
// position.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"
#include "plan/memory_plan.h"
#include "plan/plan_target.h"

namespace shoehorn {

struct BufferPlace {
  int64_t buffer = -1;  // index in AssignedBuffers::buffers; -1 for state
  StorageId storage;
  int64_t offset = 0;  // bytes from the start of the buffer or storage
};

struct AssignedBuffers {
  std::vector<Buffer> buffers;            // without offsets; workspaces come last
  std::vector<BufferPlace> places;        // by value id; those of values that no node makes are empty
  std::vector<int64_t> workspace_buffer;  // by node; -1: none
  std::vector<int64_t> workspace_bytes;   // by node
};

AssignedBuffers assign_buffers(const Program& program, const PlanTarget& target);

}  // namespace shoehorn
