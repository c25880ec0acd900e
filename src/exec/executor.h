// Runs planned programs: reserves the arenas, binds every node, then calls kernels in order. Nothing
// allocates once the constructor is done. Nodes of all lanes run one after the other, which every plan
// allows; the host's spaces are all memory of this process, and there is no disk.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/arena.h"
#include "plan/backend.h"
#include "plan/memory_plan.h"

namespace shoehorn {

struct ExecutorOptions {
  // For tests: before a node runs, bytes of the transient arena in which nothing lives are filled with NaN
  // patterns, so that a read of a dead or never written byte shows; after it, the same bytes are checked to
  // be untouched.
  bool poison = false;
};

class Executor {
 public:
  // The programs, their state table and the backend must outlive the executor.
  Executor(const StateTable& state, const std::vector<Program>& programs, const MemoryPlan& plan,
           const Backend& backend, ExecutorOptions options = {});

  // `counts` has the value of each of the program's counts; throws InternalError above a maximum.
  void run(ProgramId program, std::span<const int64_t> counts);

  // Called after each node while set: for --detect_anomaly and profiles.
  using Observer = std::function<void(ProgramId, size_t node, std::span<const int64_t> counts)>;
  void set_observer(Observer after_node) { observer_ = std::move(after_node); }

  const StateTable& state() const { return state_; }
  const Program& program(ProgramId id) const { return *programs_[id.at()].program; }
  // The bytes of a persistent storage.
  std::byte* storage(StorageId id) const {
    return spaces_[static_cast<size_t>(state_.storage(id).space)].persistent.data() +
           plan_.storage_offset[id.at()];
  }
  template <typename T>
  T* storage_as(StorageId id) const {
    return reinterpret_cast<T*>(storage(id));
  }
  // The bytes of a value of a program; meaningful while it lives, results until the next run.
  std::byte* value(ProgramId program, ValueId id) const;

  int64_t arena_bytes() const;
  int64_t resident_arena_bytes() const;

 private:
  struct SpaceArenas {
    Arena persistent;
    Arena transient;
  };
  struct Bound {
    const Program* program;
    const ProgramPlan* plan;
    std::vector<PreparedNode> nodes;
  };
  std::byte* at(const Location& location) const;
  Bound bind(const Program& program, const ProgramPlan& plan, const Backend& backend) const;
  const Arena& transient(AddressSpace space) const { return spaces_[static_cast<size_t>(space)].transient; }
  void fill_dead(const Bound& bound, size_t node) const;
  void check_dead(const Bound& bound, size_t node) const;

  const StateTable& state_;
  const MemoryPlan& plan_;
  ExecutorOptions options_;
  std::vector<SpaceArenas> spaces_;
  std::vector<Bound> programs_;
  Observer observer_;
};

}  // namespace shoehorn
