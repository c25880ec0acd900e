// A session: a model's programs, their memory plan and, once reserved, their executor.
//
// The constructor plans. compile() makes the kernels' code. Neither reserves memory, so that a caller can
// look at plan() first. Not copyable or movable, because the executor refers to the family and the plan. One
// thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/backend/backend.h"
#include "exec/executor.h"
#include "passes/pipeline.h"
#include "plan/memory_plan.h"

namespace shoehorn {

struct SessionOptions {
  RunKind kind = RunKind::kTrain;
  BatchCapacity train;
  BatchCapacity evaluation;  // no sequences: no evaluation program
  // Further, smaller capacities, each with programs of its own over the same memory (passes/program_family.h).
  std::vector<BatchCapacity> smaller_train = {}, smaller_evaluation = {};
  StepOptions step;
  ExecutorOptions executor;
  // Size of the staging storage for batches that are packed ahead of the step, and its address space: memory
  // that a device reads directly, or plain memory.
  int64_t staging_bytes = 0;
  AddressSpace staging_space = AddressSpace::kPinnedHost;
  // What evaluations keep of outputs (Task::score_bytes of the evaluation's samples), in the host's memory.
  int64_t score_bytes = 0;
  // The backend to plan for and run on; null: the default backend (exec/backends.h) of this machine.
  std::shared_ptr<const Backend> backend = {};
  int threads = 0;  // of the default backend; 0: thread_count() decides
  // Whether the code that the backend made stays when the session ends, for the next of many plans; whoever made them
  // calls Backend::release_unused_code() then.
  bool keeps_code = false;
  // One of many plans that are compared and never run: its programs are verified once, at the end, and its arenas may be
  // 1/1024 larger than those of the same run without it.
  bool is_compared = false;
};

class Session {
 public:
  // UserError for settings that do not go together, or for a model that cannot be trained.
  Session(const Model& model, SessionOptions options);
  ~Session();  // frees the kernels' code too, unless keeps_code
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionOptions& options() const { return options_; }
  const ProgramFamily& family() const { return family_; }
  const StateTable& state() const { return *family_.state; }
  const MemoryPlan& plan() const { return plan_; }
  const Backend& backend() const { return *backend_; }
  const std::vector<PassRecord>& passes() const { return passes_; }
  double planning_seconds() const { return planning_seconds_; }

  // Makes the code that the nodes run, so that a caller can measure what the process holds before reserve().
  void compile();
  // Reserves the arenas, binds every node and writes the initial loss scale and the classes' weights. SystemError if the memory cannot
  // be had; UserError if the backend only plans for another machine.
  void reserve();
  // Behind every load of weights, on all ranks together: makes whole what each rank has loaded its part of (passes/zero.h),
  // and lets local SGD begin there (passes/local_sgd.h).
  void after_load();
  // DataParallel, on all ranks together: the first rank's weights go to all (passes/replicas.h).
  void replicate();
  bool is_reserved() const { return executor_.has_value(); }
  Executor& executor() { return *executor_; }
  // The staging for batches that are packed ahead. The session must be reserved.
  std::span<std::byte> staging() const;
  // The memory of SessionOptions::score_bytes, for one evaluation at a time. The session must be reserved.
  std::span<std::byte> score_memory() const;

  // How often a program of the family runs in an optimizer step whose micro-batches are as large as any; in an
  // evaluation run, in such a batch. What runs every so many steps runs a part of a time in each.
  double calls_in_step(const Program& program) const;

  // What a step makes this rank send to the others, of local SGD on average; 0 where there is one rank.
  int64_t sent_bytes_in_step(int64_t rank) const;
  // How often ranks tell each other in front of a step whether a stop was requested (ranks/agreement.h): ranks that train alone for some
  // steps only in front of the first of them. 0 where there is one rank.
  double stop_agreements_in_step() const;

  int64_t parameter_count() const;
  int64_t trainable_parameter_count() const;
  // Flops of a step, and of its matrix products only, with every count at its maximum.
  double step_flops() const;
  double step_product_flops() const;

 private:
  double sum_flops(bool (*counts)(const struct OpInfo&)) const;
  int64_t host_staging_bytes() const;

  SessionOptions options_;
  std::shared_ptr<const Backend> backend_;
  std::vector<PassRecord> passes_;
  ProgramFamily family_;
  StorageId staging_;
  StorageId score_memory_;
  MemoryPlan plan_;
  double planning_seconds_ = 0;
  std::optional<Executor> executor_;
};

}  // namespace shoehorn
