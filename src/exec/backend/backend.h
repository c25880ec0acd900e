// The interface of a backend. A backend owns memory, streams, events and kernels of a device. The executor
// (exec/executor.h) drives it, lane by lane; other code calls it only to plan and to measure. Only the
// backend and its kernels read or write through an address; all others use views (exec/host_view.h).
//
//                       the CPU                      how a CUDA backend would do it
//   reserve             anonymous memory, touched    cudaMalloc; cudaHostAlloc for pinned host memory
//   Arena::host         its address                  null of the device's; the address of the host's
//   make_stream         runs what it is given        cudaStreamCreateWithFlags(cudaStreamNonBlocking)
//   Stream::record      nothing                      cudaEventRecord
//   Stream::wait        nothing                      cudaStreamWaitEvent
//   Stream::mark        reads the clock              cudaEventRecord with timing, put on the host's clock
//   Event::wait         nothing                      cudaEventSynchronize
//   copy_to_host, …     memcpy                       cudaMemcpyAsync: full speed to and from pinned memory
//   fill                memset                       cudaMemsetAsync
//   workspace_bytes     asks the products' library   that of cublasLtMatmulAlgoGetHeuristic's algorithm
//   compile             machine code of products     keeps these algorithms; loads modules
//   prepare             primitives, bound pointers   a launch on the stream; the counts are its arguments
//   measure_overhead…   resident bytes               cudaMemGetInfo after the context is created
//
// Issuing and waiting are separate: a call on a stream may return before the work is done, and an event tells
// when it is. A backend whose calls return when the work is done, like the CPU's, has nothing to wait for.
//
// A backend must outlive its arenas, streams, events and prepared nodes. One thread at a time uses it.
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

// Reserved memory in one address space. It is zeroed and backed by memory from the start, so that nothing can
// fail later. Aligned to kArenaAlignment or more.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual int64_t bytes() const = 0;
  // The address for kernels and copies. The host does not read or write through it.
  virtual std::byte* address() const = 0;
  // The address for the host, to be used when the work that uses the memory is done; null if the host cannot
  // reach it.
  virtual std::byte* host() const = 0;
  // How many bytes are backed by physical memory now, rounded up to whole pages.
  virtual int64_t resident_bytes() const = 0;
  // Keeps it in physical memory until it is freed, whatever other processes take. SystemError if the system refuses. Nothing to do
  // where memory is not taken away.
  virtual void lock() {}
};

// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks until the event is reached. Returns at once if it was never recorded.
  virtual void wait() const = 0;
};

// A queue of work that is done in order. After its destruction, issued work is done or will never begin.
class Stream {
 public:
  virtual ~Stream() = default;
  // The event is reached when all work issued so far is done. If an event is recorded again, the last record
  // counts.
  virtual void record(Event& event) = 0;
  // Work issued from now on begins after the event, as last recorded, is reached.
  virtual void wait(const Event& event) = 0;
  // `seconds` becomes the time (base/now_seconds.h) at which all work issued so far is done. It is there for whoever has
  // waited for an event that was recorded behind the mark, and must be kept until then.
  virtual void mark(double& seconds) = 0;
};

// The addresses of a node's values. Absent inputs are null. All are aligned to kArenaAlignment, except views.
struct NodeBuffers {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// Issues a node that is ready to run: primitives made, addresses and stream bound. `counts[c]` is the
// run-time value of the program's count c; it is read before the call returns. A call allocates nothing.
using PreparedNode = std::function<void(const int64_t* counts)>;

class Backend : public PlanTarget {
 public:
  // The properties of the machine that plans for this backend depend on.
  virtual const MachineProfile& machine() const = 0;
  // False if the backend only plans, for a machine that is not this one.
  virtual bool can_run() const { return true; }

  // SystemError if the memory cannot be had; InternalError for an address space that this backend does not
  // have.
  virtual std::unique_ptr<Arena> reserve(AddressSpace space, int64_t bytes) const = 0;
  virtual std::unique_ptr<Stream> make_stream() const = 0;
  virtual std::unique_ptr<Event> make_event() const = 0;

  // `from` and `to` without a span are addresses in this backend's arenas. The caller must not touch the
  // host's side until the copy is done.
  virtual void copy_to_host(const std::byte* from, std::span<std::byte> to, Stream& stream) const = 0;
  virtual void copy_from_host(std::span<const std::byte> from, std::byte* to, Stream& stream) const = 0;
  virtual void fill(std::byte* to, int64_t bytes, std::byte value, Stream& stream) const = 0;

  // Makes the code that the node runs, so that prepare() makes none. The code's size is part of the process's
  // overhead: call it before that is measured, and only for programs that will run.
  virtual void compile(const Program&, const Node&) const {}
  // Frees the code that no prepared node uses.
  virtual void release_unused_code() const {}
  // UserError naming the node if this backend has no kernel for it. `stream` must outlive the result.
  virtual PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                               Stream& stream) const = 0;

  // How much more host memory a process of this backend can take, and which limit says so.
  virtual MemoryLimit memory_limit() const { return binding_memory_limit(); }
  // What the process holds in this space now besides arenas, plus what a run is known to add to that.
  virtual int64_t measure_overhead_bytes(AddressSpace space) const = 0;
  // Measures for about a second, or a few.
  virtual MachineLimits measure_limits() const = 0;
  virtual std::vector<ArithmeticPeak> measure_arithmetic_peaks() const = 0;
  // The number of rows (tokens of a micro-batch) whose multiples fill the tiles of matrix products.
  virtual int64_t rows_of_full_tiles(DType operands) const = 0;
};

}  // namespace shoehorn
