// Bars of works that follow each other. Each appears after two seconds (beside_main_work) and vanishes, and there is one at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "train/progress.h"

namespace shoehorn {

// Copies show the same bar, which vanishes with the last of them. Not thread-safe.
class WorkProgress {
 public:
  // `options`: those of a bar of the run.
  explicit WorkProgress(const ProgressOptions& options);

  // Shows that `done` of `total` are done; a total of 0 is unknown. A work of another name has a bar of its own, and so has
  // one that has less done than before, or all.
  void show(std::string_view work, ProgressUnit unit, int64_t done, int64_t total) const;

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
