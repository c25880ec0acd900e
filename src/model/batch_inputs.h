// What a program reads besides weights and optimizer states: the columns of a micro-batch
// (data/batch_table.h) and the scalars of the step.
#pragma once

#include <array>
#include <string>

#include "data/batch_table.h"
#include "graph/program.h"

namespace shoehorn {

// The storages of one micro-batch: those columns that a program of the family asked for, of the largest capacity that a
// program has; one of a smaller capacity reads their front (Program::state_type). Those of several
// micro-batches exist side by side only where a program holds several (layer-major accumulation).
class BatchInputs {
 public:
  BatchInputs() = default;
  // `state` must outlive this object. `prefix` distinguishes batches of the same family ("" or
  // "evaluation.").
  BatchInputs(StateTable& state, const BatchCapacity& capacity, int32_t micro_batch, std::string prefix = {});

  const BatchCapacity& capacity() const { return capacity_; }

  // The column's storage, made on first use: [N], [S] or [M] of the table's element type; of a column of rows
  // [S, width]. UserError for a column of the decoder's tokens where samples have none. CHECKs that who asks again asks
  // for rows as wide.
  StorageId request(BatchColumn column, int64_t width = 1);
  // The same without creating it; invalid if nobody asked for the column.
  StorageId find(BatchColumn column) const { return storages_[static_cast<size_t>(column)]; }
  // Elements per row of a column that was asked for.
  int64_t width(BatchColumn column) const { return widths_[static_cast<size_t>(column)]; }
  // The column of a storage. CHECKs that it belongs to this micro-batch.
  BatchColumn column_of(StorageId storage) const;

 private:
  StateTable* state_ = nullptr;
  BatchCapacity capacity_;
  int32_t micro_batch_ = 0;
  std::string prefix_;
  std::array<StorageId, kBatchColumns> storages_;
  std::array<int64_t, kBatchColumns> widths_{};
};

// The count of an axis of a micro-batch. Every program of a family begins with these counts, in this order.
inline CountId batch_count(int32_t micro_batch, BatchAxis axis) {
  return {static_cast<int32_t>(kBatchAxes.size()) * micro_batch + static_cast<int32_t>(axis)};
}
void add_batch_counts(Program& program, const BatchCapacity& capacity);

// The scalars that the host writes before each step.
struct ScalarStorages {
  StorageId step;             // i32[1] optimizer step, from 0: selects the dropout masks
  StorageId applied_updates;  // i32[1] updates applied so far: bias correction
  StorageId learning_rate;    // f32[1]
  StorageId target_count;     // f32[1] targets in the effective batch, or the sum of their classes' weights
  StorageId class_weights;    // f32[C], written once; invalid: classes have no weights
};

// Adds a persistent storage of one element.
StorageId add_scalar(StateTable& state, const std::string& name, DType dtype);
ScalarStorages add_scalar_storages(StateTable& state);

}  // namespace shoehorn
