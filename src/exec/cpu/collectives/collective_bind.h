// Binds the ops that ranks issue together to the backend's communicator.
#pragma once

#include <memory>

#include "exec/backend/backend.h"
#include "exec/backend/host_stream.h"
#include "ops/op_info.h"
#include "ranks/communicator.h"

namespace shoehorn::cpu {

bool is_collective(OpKind kind);

// CHECKs that `ranks` (null: none) are as many as the node is for. On lane 0 the call returns when all is done, and may throw
// SystemError; on another lane a thread of the stream's does the work, and who waits for it gets the error.
PreparedNode bind_collective(const OpContext& node, const NodeBuffers& buffers,
                             std::shared_ptr<Communicator> ranks, HostStream& stream);

}  // namespace shoehorn::cpu
