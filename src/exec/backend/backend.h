// What computes. A backend owns memory, streams, events and kernels. The executor (exec/executor.h) drives it
// by lanes; nothing else calls it but to plan and to measure, and nobody but the backend and its kernels
// reads or writes through an address (exec/host_view.h is the way for all others).
//
//                       the CPU                      as CUDA would have it
//   reserve             anonymous memory, touched    cudaMalloc; cudaHostAlloc for pinned host memory
//   Arena::host         its address                  null of the device's; the address of the host's
//   make_stream         runs what it is given        cudaStreamCreateWithFlags(cudaStreamNonBlocking)
//   Stream::record      nothing                      cudaEventRecord
//   Stream::wait        nothing                      cudaStreamWaitEvent
//   Event::wait         nothing                      cudaEventSynchronize
//   copy_to_host, …     memcpy                       cudaMemcpyAsync: at full speed from and to pinned memory
//   fill                memset                       cudaMemsetAsync
//   workspace_bytes     asks the products' library   of the algorithm that cublasLtMatmulAlgoGetHeuristic gives
//   compile             machine code of products     the same algorithms kept; modules loaded
//   prepare             primitives, bound pointers   a launch on the stream; the counts are its arguments
//   measure_overhead…   resident bytes               cudaMemGetInfo after the context is made
//
// Issue and wait are separate: a call on a stream may return before the work is done, and an event says when
// it is. A backend that is done when it returns, as the CPU's, has nothing to wait for.
//
// A backend outlives its arenas, streams, events and prepared nodes. One thread at a time uses it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_limit.h"
#include "plan/machine_profile.h"
#include "plan/plan_target.h"

namespace shoehorn {

// A reservation of memory in one address space: zeroed, and there from the start, so that nothing is left to
// fail later. Aligned to kArenaAlignment at least.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual int64_t bytes() const = 0;
  // Where kernels and copies find it. The host neither reads nor writes there.
  virtual std::byte* address() const = 0;
  // Where the host reads and writes it, once the work that uses it is done; null where it cannot.
  virtual std::byte* host() const = 0;
  // Bytes of it that are backed by memory now, up to whole pages.
  virtual int64_t resident_bytes() const = 0;
};

// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks until it is reached; not at all where it was never recorded.
  virtual void wait() const = 0;
};

// Work in order. When it is destroyed, what was issued is done or never begins.
class Stream {
 public:
  virtual ~Stream() = default;
  // The event is reached when all that was issued so far is done. Of an event recorded again, the last counts.
  virtual void record(Event& event) = 0;
  // What is issued from now on begins when the event, as it was recorded last, is reached.
  virtual void wait(const Event& event) = 0;
};

// Where a node's values lie. Absent inputs are null. Aligned to kArenaAlignment at least but for views.
struct NodeBuffers {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// Issues a node that is ready to run: primitives made, addresses and stream bound. `counts[c]` is the run-time
// value of the program's count c, read before the call returns. A call allocates nothing.
using PreparedNode = std::function<void(const int64_t* counts)>;

class Backend : public PlanTarget {
 public:
  // What plans for this backend depend on.
  virtual const MachineProfile& machine() const = 0;
  // False: it plans only, for a machine that is not here.
  virtual bool is_here() const { return true; }

  // SystemError where the memory is not to be had; InternalError of a space that this backend has not.
  virtual std::unique_ptr<Arena> reserve(AddressSpace space, int64_t bytes) const = 0;
  virtual std::unique_ptr<Stream> make_stream() const = 0;
  virtual std::unique_ptr<Event> make_event() const = 0;

  // `from` and `to` without a span are addresses in arenas of this backend. What lies on the host is not touched
  // by it until the copy is done.
  virtual void copy_to_host(const std::byte* from, std::span<std::byte> to, Stream& stream) const = 0;
  virtual void copy_from_host(std::span<const std::byte> from, std::byte* to, Stream& stream) const = 0;
  virtual void fill(std::byte* to, int64_t bytes, std::byte value, Stream& stream) const = 0;

  // Makes the code that the node runs; prepare() then makes none. Its size is part of the process's overhead,
  // so that it is made before that is measured, and only for the programs that will run.
  virtual void compile(const Program&, const Node&) const {}
  // Gives back the code that no prepared node uses.
  virtual void release_unused_code() const {}
  // UserError where this backend has no kernel for the node, naming it. `stream` outlives what is returned.
  virtual PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                               Stream& stream) const = 0;

  // What a process of this backend can still take of the host's memory, and what sets that limit.
  virtual MemoryLimit memory_limit() const { return binding_memory_limit(); }
  // What the process holds now in this space, and what a run is known to add to that, besides arenas.
  virtual int64_t measure_overhead_bytes(AddressSpace space) const = 0;
  // A second or a few.
  virtual MachineLimits measure_limits() const = 0;
  virtual std::vector<ArithmeticPeak> measure_arithmetic_peaks() const = 0;
  // Rows (tokens of a micro-batch) come in multiples of this where the tiles of products are full.
  virtual int64_t rows_of_full_tiles(DType operands) const = 0;
};

}  // namespace shoehorn
