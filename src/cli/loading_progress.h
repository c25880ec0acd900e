// The bars (train/work_progress.h) of what is done with files of data before a run begins: texts are hashed, read and
// tokenized, files of tokens verified, labels counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "arguments/training_arguments.h"
#include "data/dataset_cache.h"
#include "train/work_progress.h"

namespace shoehorn {

// Copies show the same bar, which vanishes with the last of them and of the functions that they gave. Not thread-safe.
class LoadingProgress {
 public:
  // `options`: those of a bar of the run.
  explicit LoadingProgress(const ProgressOptions& options);
  // None with disable_tqdm.
  explicit LoadingProgress(const TrainingArguments& args);

  // WorkProgress::show. Throws Stopped where a stop is requested.
  void show(std::string_view work, ProgressUnit unit, int64_t done, int64_t total) const;

  // LoadOptions::on_rows_read and on_progress, TextOptions::on_progress, DatasetCacheOptions::on_progress, and what class_counts
  // tells (train/data_description.h).
  std::function<void(int64_t rows)> of_rows_read() const;
  std::function<void(int64_t done, int64_t rows)> of_rows() const;
  std::function<void(int64_t texts)> of_texts() const;
  std::function<void(CacheWork work, int64_t done, int64_t bytes)> of_cache() const;
  std::function<void(int64_t done, int64_t samples)> of_labels() const;

 private:
  WorkProgress bars_;
};

}  // namespace shoehorn
