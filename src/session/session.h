// A model made ready to run: its programs, their memory plan and, once reserved, their executor.
//
// Construction plans; compile() makes the code of the kernels; neither reserves anything: a caller looks at
// plan() and decides. Not copyable or movable: the executor refers to the family and the
// plan.
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
  // Room for batches that are packed ahead of the step: a storage of its own, in memory that a device reads
  // from directly, or in plain memory.
  int64_t staging_bytes = 0;
  AddressSpace staging_space = AddressSpace::kPinnedHost;
  // What it is planned for and runs on; null: the default backend (exec/backends.h) on this machine.
  std::shared_ptr<const Backend> backend = {};
  int threads = 0;  // of the default backend; 0: OpenMP's default
};

class Session {
 public:
  // UserError for settings that do not go together, or a model that cannot be trained.
  Session(const Model& model, SessionOptions options);
  ~Session();  // its code goes too
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionOptions& options() const { return options_; }
  const ProgramFamily& family() const { return family_; }
  const StateTable& state() const { return *family_.state; }
  const MemoryPlan& plan() const { return plan_; }
  const Backend& backend() const { return *backend_; }
  const std::vector<PassRecord>& passes() const { return passes_; }
  double planning_seconds() const { return planning_seconds_; }

  // Makes the code that the nodes run, for who wants to know what the process holds before reserve().
  void compile();
  // Reserves both arenas, binds every node and writes the first loss scale. SystemError where the memory is
  // not to be had; UserError of a backend that is not here.
  void reserve();
  bool is_reserved() const { return executor_.has_value(); }
  Executor& executor() { return *executor_; }
  // The room for batches that are packed ahead; of a session that is reserved.
  std::span<std::byte> staging() const;

  // How often a program of the family runs in an optimizer step whose micro-batches are as large as any; in an
  // evaluation run, in such a batch.
  int64_t calls_in_step(const Program& program) const;

  int64_t parameter_count() const;
  int64_t trainable_parameter_count() const;
  // Flops of a step and of the products among them, at full capacity.
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
  MemoryPlan plan_;
  double planning_seconds_ = 0;
  std::optional<Executor> executor_;
};

}  // namespace shoehorn
