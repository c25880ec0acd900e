// Runs planned programs on a backend: reserves the arenas, binds every node, then issues them by lanes.
// Nothing allocates once the constructor is done.
//
// A lane is a stream. Lane 0 computes. A node of another lane is issued at its place in the list and begins
// when lane 0 has done what stands before it (graph/program.h); the first node that reads what it made waits
// for it, and at the latest the end of the program. What is issued may run after run() has returned: reading
// waits for it.
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
  // For tests: before a node runs, bytes of the transient arena in which nothing lives are filled with NaN
  // patterns, so that a read of a dead or never written byte shows; after it, the same bytes are checked to
  // be untouched.
  bool poison = false;
  // Where the host does not reach the device's memory, the storage that views pass through (add_host_staging).
  StorageId host_staging = {};
};

class Executor {
 public:
  // The programs, their state table and the backend must outlive the executor.
  Executor(const StateTable& state, const std::vector<Program>& programs, const MemoryPlan& plan,
           const Backend& backend, ExecutorOptions options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `counts` has the value of each of the program's counts; throws InternalError above a maximum.
  void run(ProgramId program, std::span<const int64_t> counts);

  // Called after each node is done while set: for --detect_anomaly and profiles.
  using Observer = std::function<void(ProgramId, size_t node, std::span<const int64_t> counts)>;
  void set_observer(Observer after_node) { observer_ = std::move(after_node); }

  const StateTable& state() const { return state_; }
  const Program& program(ProgramId id) const { return *programs_[id.at()].program; }

  // Host access, by copy; exec/host_view.h has it without one. Reading waits for what was issued; what is written is
  // there for what is issued from then on.
  void read(StorageId storage, int64_t offset_bytes, std::span<std::byte> to) const;
  void read(ProgramId program, ValueId value, int64_t offset_bytes, std::span<std::byte> to) const;
  void write(StorageId storage, int64_t offset_bytes, std::span<const std::byte> from);
  // Of a storage, or a result of a program, of one element.
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
  // A storage that lies in an address space of the host's. Programs that still run may use it.
  std::span<std::byte> host_storage(StorageId storage) const;
  // What one more view of the device's memory can have.
  int64_t largest_view_bytes() const;

  int64_t arena_bytes() const;
  int64_t resident_arena_bytes() const;

 private:
  friend class ReadView;
  friend class WriteView;

  struct SpaceArenas {
    std::unique_ptr<Arena> persistent, transient;  // null where the plan has no bytes
  };
  // As backend.h has it: `host` is null where the host cannot reach it.
  struct Place {
    std::byte* address = nullptr;
    std::byte* host = nullptr;
  };
  // A node with what orders it among the lanes.
  struct BoundNode {
    PreparedNode issue;
    int32_t lane = 0;
    std::unique_ptr<Event> lane_0_before;  // of a node of another lane: reached when it may begin
    std::unique_ptr<Event> done;           // of a node of another lane
    std::vector<const Event*> waits_for;   // events `done` of other lanes
  };
  struct Bound {
    const Program* program;
    const ProgramPlan* plan;
    std::vector<BoundNode> nodes;
    std::vector<const Event*> waits_at_end;
  };

  void make_streams(const std::vector<Program>& programs);
  Bound bind(const Program& program, const ProgramPlan& plan) const;
  void order_lanes(Bound& bound) const;
  void issue(const BoundNode& node, const int64_t* counts);

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
  std::unique_ptr<Event> reached_;  // what the host waits for
  std::vector<Bound> programs_;
  mutable HostStaging staging_;
  Observer observer_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by lane; destroyed first, with the work they still have
};

}  // namespace shoehorn
