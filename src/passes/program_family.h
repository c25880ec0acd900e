// The programs of a run. They share one table of persistent storages.
//
//   one micro-batch a step, or layer-major   kTrainStep
//   micro-batch-major accumulation           kMicroBatchFirst, kMicroBatchNext, kUpdate
//   that of data-parallel ranks, besides     kMicroBatchLast, kExchange
//   evaluation and prediction                kEvaluate
//   DataParallel, before each forward        kReplicate
//   behind a load                            kAfterLoad
//   local SGD, every so many steps           kOuterUpdate
//
// Programs are found by kind and by bucket: a capacity that micro-batches are cut to. Bucket 0 is the largest, which
// every batch fits; a smaller one has programs of its own, which read the front of the same inputs and lie over the
// same transient arena. What follows a step's last micro-batch (kUpdate) reads no batch and is there once.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "graph/program.h"
#include "model/model_builder.h"
#include "passes/step_options.h"

namespace shoehorn {

// The storages that float16 training keeps between steps; invalid in other runs. The host writes their first
// values.
struct LossScaleStorages {
  StorageId scale;            // f32[1]
  StorageId applied_in_row;   // i32[1] applied steps since the scale last changed
  StorageId overflows_to_go;  // i32[1] overflows left until the scale shrinks
  // i32[1]: 1 if the last step's update was skipped, else 0; invalid under update_in_backward
  StorageId found_inf;
};

// The adapters that the pass `lora` added: y = x·Wᵀ + (scale·x·Aᵀ)·Bᵀ.
struct LowRankAdapter {
  ParameterId weight, a, b;
  bool is_transposed = false;  // the weight is [inputs, outputs], as GPT-2's Conv1D has it
};
struct AdapterSet {
  std::vector<LowRankAdapter> list;  // empty: no adapters
  std::vector<ParameterId> saved;    // trained and saved whole, beside the adapters
  float scale = 1;
  // For PEFT's adapter_config.json: the task, and the names that selected them.
  std::string task_type;
  std::vector<std::string> target_modules, modules_to_save;
  bool ensure_weight_tying = false;  // what is saved has a table that is the head, too
  // The model's defaults, for options without names.
  std::vector<std::string> default_targets, default_modules_to_save;

  bool empty() const { return list.empty(); }
};

// The capacities that programs of a kind are built for.
struct BatchBuckets {
  BatchCapacity largest;                    // bucket 0; no sequences: there are no such programs
  std::vector<BatchCapacity> smaller = {};  // 1, 2, …: none of them larger than bucket 0 in anything

  BatchBuckets() = default;
  BatchBuckets(const BatchCapacity& only)  // NOLINT(google-explicit-constructor): most runs have one
      : largest(only) {}
  BatchBuckets(const BatchCapacity& first, std::vector<BatchCapacity> others)
      : largest(first), smaller(std::move(others)) {}

  int32_t size() const { return largest.sequences > 0 ? static_cast<int32_t>(smaller.size()) + 1 : 0; }
  const BatchCapacity& operator[](int32_t bucket) const {
    return bucket == 0 ? largest : smaller[static_cast<size_t>(bucket) - 1];
  }
  // The bucket of the fewest tokens, and then of the shortest sequences, that has room for this; bucket 0 where none
  // of the others has.
  int32_t smallest_for(const BatchCapacity& needed) const;
};

// Parameters that lie in one storage, of which each rank has a part (passes/zero.h).
struct ShardedStorage {
  StorageId shard;  // this rank's parts of the parameters, one behind the other; what updates read and write
  StorageId whole;  // what the model reads; empty where it is gathered each time that it is read
  std::vector<RingSegment> segments;  // a parameter each
  TensorType whole_type;
  bool is_kept = true;     // the whole is kept from step to step
  bool is_trained = true;  // so are its gradient and states
};

struct ProgramFamily {
  std::unique_ptr<StateTable> state = std::make_unique<StateTable>();
  ScalarStorages scalars;
  BatchBuckets train_buckets, evaluation_buckets;
  // Of all buckets. For training one, or one a micro-batch where a program holds several.
  std::vector<BatchInputs> train_batches;
  BatchInputs evaluation_batch;
  StorageId loss;       // f32[1], role scalar: the step's loss, summed over micro-batches
  StorageId grad_norm;  // f32[1], of the unscaled gradients; invalid without clipping
  LossScaleStorages loss_scale;
  AdapterSet adapters;
  std::vector<ShardedStorage> shards;  // of several ranks
  std::vector<Program> programs;

  // Between passes: the gradients that the backward makes, by training bucket; behind `accumulate`, those that the
  // program of kind kUpdate reads where there is one.
  std::vector<std::vector<ParameterGradient>> gradients;

  // The program for this; an invalid id where there is none.
  ProgramId find(ProgramKind kind, int32_t bucket = 0) const;
  // The programs of a kind, by bucket.
  std::vector<ProgramId> all(ProgramKind kind) const;

  // How often a program runs in an optimizer step in which this rank has so many micro-batches, where bucket 0 has them all. 0 for
  // what is not of each step.
  int64_t runs_in_step(const Program& program, int64_t micro_batches) const;

  // Whether a rank has parts of what is trained, and of its states.
  bool shards_what_is_trained() const;

  const BatchBuckets& buckets_of(const Program& program) const {
    return program.traits().trains ? train_buckets : evaluation_buckets;
  }
  // The most that a micro-batch of this program has.
  const BatchCapacity& capacity_of(const Program& program) const {
    return buckets_of(program)[program.bucket()];
  }
  BatchInputs& batch_of(const Program& program) {
    return program.traits().trains ? train_batches[0] : evaluation_batch;
  }
  const Program& program(ProgramId id) const { return programs[id.at()]; }
  Program& program(ProgramId id) { return programs[id.at()]; }
};

}  // namespace shoehorn
