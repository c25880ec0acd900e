// The bars of what is done with files of data before a run begins: texts are hashed and tokenized, files of tokens verified.
// Each appears after two seconds and vanishes, and there is one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "arguments/training_arguments.h"
#include "data/dataset_cache.h"
#include "train/progress.h"

namespace shoehorn {

// Copies show the same bar, which vanishes with the last of them and of the functions that they gave. Not thread-safe.
class LoadingProgress {
 public:
  // `options`: those of a bar of the run.
  explicit LoadingProgress(const ProgressOptions& options);
  // None with disable_tqdm.
  explicit LoadingProgress(const TrainingArguments& args);

  // Shows that `done` of `total` are done; a total of 0 is unknown. A work of another name has a bar of its own, and so has
  // one that has less done than before, or all. Throws Stopped where a stop is requested.
  void show(std::string_view work, ProgressUnit unit, int64_t done, int64_t total) const;

  // LoadOptions::on_progress, TextOptions::on_progress and DatasetCacheOptions::on_progress.
  std::function<void(int64_t done, int64_t rows)> of_rows() const;
  std::function<void(int64_t texts)> of_texts() const;
  std::function<void(CacheWork work, int64_t done, int64_t bytes)> of_cache() const;

 private:
  struct Bar {
    ProgressOptions options = {};
    std::string work = {};
    int64_t done = 0;
    std::optional<Progress> progress = {};
  };

  std::shared_ptr<Bar> bar_;
};

}  // namespace shoehorn
