// A data set and how a hand-written loop goes through it: PyTorch's DataLoader by name and default.
//
//   DataLoader loader(dataset, {.batch_size = 4, .shuffle = true});
//
// It is a description: Accelerator::prepare gives the loader that a loop iterates, since micro-batches are
// packed straight into the planned memory.
#pragma once

#include <cstdint>
#include <optional>

#include "arguments/training_arguments.h"
#include "data/dataset.h"

namespace shoehorn {

struct DataLoaderOptions {
  int64_t batch_size = 1;  // sequences of a micro-batch
  bool shuffle = false;    // in the order of the Trainer: by epoch, from the data seed of the arguments
  int64_t num_workers = 0;
  bool pin_memory = false;  // accepted: there is no device to copy to
  bool drop_last = false;   // leave out an incomplete last micro-batch
  std::optional<int64_t> prefetch_factor = {};
};

class DataLoader {
 public:
  // UserError: an empty data set, an option out of range.
  explicit DataLoader(Dataset dataset, DataLoaderOptions options = {});

  const Dataset& dataset() const { return dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  // Micro-batches of an epoch.
  int64_t size() const;

 private:
  Dataset dataset_;
  DataLoaderOptions options_;
};

// `args` with what the options say in place of its arguments for batches and data loading.
TrainingArguments with_loader(TrainingArguments args, const DataLoaderOptions& options);

}  // namespace shoehorn
