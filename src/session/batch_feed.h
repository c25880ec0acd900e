// Fills the inputs of a program with micro-batches.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "exec/host_view.h"
#include "model/batch_inputs.h"

namespace shoehorn {

// The columns that programs asked for, as host memory that the data layer fills; where the host reaches the
// inputs, it is their own memory. What was filled stays readable during the object's lifetime.
//
//   MicroBatchInputs inputs(executor, family.train_batches[0]);
//   windows.load(index, inputs.batch());
//   inputs.send();
class MicroBatchInputs {
 public:
  // Both must outlive this object.
  MicroBatchInputs(Executor& executor, const BatchInputs& inputs);

  MicroBatch& batch() { return batch_; }
  // Call it each time the batch was filled, before a program runs.
  void send();
  // Before the batch is filled anew.
  void wait_until_free();

 private:
  std::array<std::optional<WriteView>, kBatchColumns> views_;
  MicroBatch batch_;
};

// What a micro-batch takes that is sent to another rank (train/batch_scatter.h): its counts, and its columns with every count at
// its maximum.
int64_t scattered_bytes(const BatchInputs& inputs);

// What a program has to have room for to run the batch.
BatchCapacity needed_capacity(const MicroBatch& batch);
// Room for either of two.
BatchCapacity larger_of(const BatchCapacity& a, const BatchCapacity& b);

// Appends the batch's count on each axis, in the order of add_batch_counts.
void append_counts(const MicroBatch& batch, std::vector<int64_t>& counts);

}  // namespace shoehorn
