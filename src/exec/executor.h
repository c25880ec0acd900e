// Runs planned programs on a backend. The constructor reserves the arenas and binds every node to its
// addresses; run() issues the nodes, lane by lane. Nothing is allocated after construction.
//
// A lane is a stream. Lane 0 computes. A node of another lane is issued at its place in the list, and begins
// when lane 0 has finished everything before it (graph/program.h). The first node that reads its results
// waits for it, and so does the end of the program. run() may return before the work is done; reading waits
// for the work. One thread at a time uses an executor.
//
// A program can be given up between two nodes (base/stop_request.h), but not once it has begun to update weights or
// other state.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/backend/backend.h"
#include "exec/host_staging.h"
#include "plan/memory_plan.h"

namespace shoehorn {

struct ExecutorOptions {
  // For tests. Before each node, all bytes of the transient arena that hold no live buffer are filled with a
  // NaN pattern, so that reading a dead or unwritten byte shows. After the node the same bytes are checked to
  // be unchanged.
  bool poison = false;
  // Whether a stop gives a program up. Where ranks run it together, none of them may: the others would wait for it.
  bool heeds_stops = true;
  // Where the host cannot reach the device's memory: the storage that views go through (add_host_staging).
  StorageId host_staging = {};
};

// When the work of a node began and was done (base/now_seconds.h).
struct NodeTimes {
  double begin = 0;
  double end = 0;
};

class Executor {
 public:
  // The programs, their state table and the backend must outlive the executor.
  Executor(const StateTable& state, const std::vector<Program>& programs, const MemoryPlan& plan,
           const Backend& backend, ExecutorOptions options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs a program with the values of its counts. InternalError if a count is above its maximum. Stopped if a stop was
  // requested before the program's first update of state: weights and states are then as before the call.
  // `times`, if not empty, has one for each node of the program, which it gets before the work is waited for; the caller keeps them
  // until then.
  void run(ProgramId program, std::span<const int64_t> counts, std::span<NodeTimes> times = {});

  // If set, called after each node is done: for --detect_anomaly.
  using Observer = std::function<void(ProgramId, size_t node, std::span<const int64_t> counts)>;
  void set_observer(Observer after_node) { observer_ = std::move(after_node); }

  // If set, called before each node is issued: for the progress of long steps. It must not use the executor.
  using NodeHook = std::function<void(ProgramId, size_t node)>;
  void set_before_node(NodeHook before_node) { before_node_ = std::move(before_node); }

  // If set, called with the bytes of each range of a storage that the host asks for: for the progress of loading and
  // saving.
  using HostAccessObserver = std::function<void(int64_t bytes)>;
  void set_host_access_observer(HostAccessObserver observer) { host_access_observer_ = std::move(observer); }

  const StateTable& state() const { return state_; }
  const Program& program(ProgramId id) const { return *programs_[id.at()].program; }

  // Host access, by copy; exec/host_view.h has it without one. Reading waits for what was issued; what is written is
  // there for what is issued from then on.
  void read(StorageId storage, int64_t offset_bytes, std::span<std::byte> to) const;
  void read(ProgramId program, ValueId value, int64_t offset_bytes, std::span<std::byte> to) const;
  void write(StorageId storage, int64_t offset_bytes, std::span<const std::byte> from);
  // For a storage, or a result of a program, with one element.
  template <typename T>
  T read_scalar(StorageId storage) const {
    T value;
    read(storage, 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename T>
  T read_scalar(ProgramId program, ValueId result) const {
    T value;
    read(program, result, 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename T>
  void write_scalar(StorageId storage, T value) {
    write(storage, 0, std::as_bytes(std::span(&value, 1)));
  }
  // The bytes of a storage in a host address space. Programs that are still running may use them.
  std::span<std::byte> host_storage(StorageId storage) const;
  // How many bytes one more view of the device's memory can have.
  int64_t largest_view_bytes() const;

  // Keeps the arenas in physical memory. SystemError if the system refuses.
  void lock_memory();

  int64_t arena_bytes() const;
  int64_t resident_arena_bytes() const;

 private:
  friend class ReadView;
  friend class WriteView;

  struct SpaceArenas {
    std::unique_ptr<Arena> persistent, transient;  // null if the plan has no bytes there
  };
  // An address, and its host pointer; `host` is null if the host cannot reach it (see backend.h).
  struct Place {
    std::byte* address = nullptr;
    std::byte* host = nullptr;
  };
  // A prepared node with its dependencies on other lanes.
  struct BoundNode {
    PreparedNode issue;
    int32_t lane = 0;
    std::unique_ptr<Event> lane_0_before;  // nodes of other lanes: reached when it may begin
    std::unique_ptr<Event> done;           // nodes of other lanes: reached when it is done
    std::vector<const Event*> waits_for;   // `done` of nodes of other lanes
  };
  struct Bound {
    const Program* program;
    const ProgramPlan* plan;
    std::vector<BoundNode> nodes;
    std::vector<const Event*> waits_at_end;
    size_t first_update;  // the program can be given up before this node, and before earlier ones
  };

  void make_streams(const std::vector<Program>& programs);
  Bound bind(const Program& program, const ProgramPlan& plan) const;
  void order_lanes(Bound& bound) const;
  void issue(const BoundNode& node, const int64_t* counts, NodeTimes* times);

  const Arena* arena_of(const Location& location) const;
  Place place_of(const Location& location) const;
  Place place_of(StorageId storage, int64_t offset_bytes, int64_t bytes) const;
  Place place_of(ProgramId program, ValueId value, int64_t offset_bytes, int64_t bytes) const;
  std::byte* at(const Location& location) const { return place_of(location).address; }
  void copy_out(const Place& place, std::span<std::byte> to) const;
  // Issues a copy of a piece of the staging, which it may read until staging_.wait_for_copies().
  void copy_in(std::span<const std::byte> staged, std::byte* address);
  Stream& computing() const { return *streams_[0]; }
  void wait_for(int32_t lane) const;
  void wait_for_work() const { wait_for(0); }

  void fill_dead(const Bound& bound, size_t node) const;
  void check_dead(const Bound& bound, size_t node) const;

  const StateTable& state_;
  const MemoryPlan& plan_;
  const Backend& backend_;
  ExecutorOptions options_;
  std::vector<SpaceArenas> spaces_;
  std::unique_ptr<Event> reached_;  // used by the host to wait for a stream
  std::vector<Bound> programs_;
  mutable HostStaging staging_;
  NodeHook before_node_;
  Observer observer_;
  HostAccessObserver host_access_observer_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by lane; destroyed first, since they may still have work
};

}  // namespace shoehorn
