#include "train/work_progress.h"

namespace shoehorn {

WorkProgress::WorkProgress(const ProgressOptions& options) : bar_(std::make_shared<Bar>()) {
  bar_->options = options;
}

void WorkProgress::show(std::string_view work, ProgressUnit unit, int64_t done, int64_t total) const {
  if (!bar_->progress || bar_->work != work || done < bar_->done) {
    bar_->progress.reset();  // erases its line before another bar draws there
    bar_->work = work;
    bar_->progress.emplace(bar_->work, 0, total, beside_main_work(bar_->options, unit));
  }
  bar_->done = done;
  bar_->progress->update(done, done);
  if (total > 0 && done >= total) bar_->progress.reset();
}

}  // namespace shoehorn
