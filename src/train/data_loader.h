// A data set with its batching options, for hand-written loops: PyTorch's DataLoader with its names and
// defaults.
//
//   DataLoader loader(dataset, {.batch_size = 4, .shuffle = true});
//
// It is only a description: the loop iterates over the loader that Accelerator::prepare returns, since
// micro-batches are packed directly into planned memory.
#pragma once

#include <cstdint>
#include <optional>

#include "arguments/training_arguments.h"
#include "data/dataset.h"

namespace shoehorn {

struct DataLoaderOptions {
  int64_t batch_size = 1;  // sequences per micro-batch
  bool shuffle = false;    // shuffle in the Trainer's order: per epoch, from the arguments' data seed
  int64_t num_workers = 0;
  bool pin_memory = false;  // accepted; no effect, since there is no device to copy to
  bool drop_last = false;   // leave out an incomplete last micro-batch
  std::optional<int64_t> prefetch_factor = {};
};

class DataLoader {
 public:
  // UserError: an empty data set, or an option out of range.
  explicit DataLoader(Dataset dataset, DataLoaderOptions options = {});

  const Dataset& dataset() const { return dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  // Micro-batches per epoch.
  int64_t size() const;

 private:
  Dataset dataset_;
  DataLoaderOptions options_;
};

// `args` with their batch and data-loading arguments replaced by the options.
TrainingArguments with_loader(TrainingArguments args, const DataLoaderOptions& options);

}  // namespace shoehorn
