#include "train/data_loader.h"

#include "base/error.h"
#include "data/training_steps.h"

namespace shoehorn {

DataLoader::DataLoader(Dataset dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  if (dataset_.size() == 0) throw user_error("[DataLoader] expected samples, got an empty data set");
  if (options_.num_workers < 0)
    throw user_error("[DataLoader: num_workers] expected 0 or more, got {}", options_.num_workers);
  size();
}

int64_t DataLoader::size() const {
  return training_steps({.samples = dataset_.epoch_size(),
                         .micro_batch_size = options_.batch_size,
                         .drop_last = options_.drop_last})
      .micro_batches_per_epoch;
}

TrainingArguments with_loader(TrainingArguments args, const DataLoaderOptions& options) {
  args.per_device_train_batch_size = options.batch_size;
  args.train_sampling_strategy = options.shuffle ? "random" : "sequential";
  args.dataloader_num_workers = options.num_workers;
  args.dataloader_pin_memory = options.pin_memory;
  args.dataloader_drop_last = options.drop_last;
  args.dataloader_prefetch_factor = options.prefetch_factor;
  return args;
}

}  // namespace shoehorn
