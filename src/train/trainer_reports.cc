// What a run shows of itself: time waited for data, log entries into the reports, the profile.
#include "base/error.h"
#include "data/window_iterator.h"
#include "io/file.h"
#include "train/trainer.h"

namespace shoehorn {

bool Trainer::next_window(Window& window) {
  const double begin = now_seconds();
  if (!windows_->next_window(window)) return false;
  // The first step meets cold caches and untouched code: it is not profiled.
  if (profile_ != nullptr && state_.global_step > first_step_)
    profile_->begin_step(state_.global_step + 1, begin);
  const double end = now_seconds();
  window_wait_seconds_ += end - begin;
  if (profile_ != nullptr) profile_->host_work(HostWork::kDataWait, begin, end);
  return true;
}

void Trainer::start_reports() {
  reporter_.emplace(args_, model_.config_json(), state_.global_step);
  if (profile_ == nullptr) return;
  if (options_.write_profile) ensure_writable_directory(args_.output_dir);
  record_nodes();
}

void Trainer::record_nodes() {
  session_->executor().set_observer(
      [profile = profile_.get()](ProgramId, size_t, std::span<const int64_t>) { profile->node_done(); });
}

const Metrics& Trainer::note(Metrics entry) {
  const Metrics& logged = state_.log(std::move(entry));
  if (reporter_) reporter_->log(logged);
  return logged;
}

void Trainer::note_throughput() {
  if (!reports_to(args_, "html") || step_seconds_since_log_ <= 0) return;
  throughput_.push_back(
      {state_.global_step, static_cast<double>(samples_since_log_) / step_seconds_since_log_});
  step_seconds_since_log_ = 0;
  samples_since_log_ = 0;
}

void Trainer::report_evaluation(Metrics metrics) {
  note(std::move(metrics));
  write_report();
}

void Trainer::write_report() const {
  if (!reports_to(args_, "html")) return;
  write_text_atomic(
      std::filesystem::path(args_.output_dir) / "report.html",
      html_report({args_, state_, *session_, forecast_, end_metrics_, throughput_, profile_.get()}));
}

}  // namespace shoehorn
