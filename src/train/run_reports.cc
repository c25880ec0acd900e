#include "train/run_reports.h"

#include <filesystem>

#include "base/error.h"
#include "io/file.h"

namespace shoehorn {

void RunReports::open(const std::string& model_config) {
  live_.emplace(args_, model_config, state_.global_step);
  status_ = RunStatus::kRunning;
  write_page();
}

const Metrics& RunReports::log(Metrics entry) {
  const Metrics& logged = state_.log(std::move(entry));
  if (live_) live_->log(logged);
  write_page_if_due();
  return logged;
}

void RunReports::add_step(double seconds, int64_t samples) {
  seconds_since_log_ += seconds;
  samples_since_log_ += samples;
  step_seconds_ += seconds;
  ++steps_;
}

void RunReports::end_throughput() {
  if (!reports_to(args_, "html") || seconds_since_log_ <= 0) return;
  throughput_.push_back({state_.global_step, static_cast<double>(samples_since_log_) / seconds_since_log_});
  seconds_since_log_ = 0;
  samples_since_log_ = 0;
}

// A page that cannot be written now is written later: it does not end the training.
void RunReports::write_page_if_due() {
  if (status_ != RunStatus::kRunning || !page_pace_.is_due(now_seconds())) return;
  try {
    write_page();
  } catch (const SystemError&) {
    page_pace_.written(now_seconds(), now_seconds());
  }
}

void RunReports::write_page() {
  if (!reports_to(args_, "html")) return;
  const double begin = now_seconds();
  write_text_atomic(
      std::filesystem::path(args_.output_dir) / "report.html",
      html_report({.arguments = args_,
                   .state = state_,
                   .session = run_.session(),
                   .forecast = run_.forecast(),
                   .metrics = end_metrics_,
                   .throughput = throughput_,
                   .status = status_,
                   .end_reason = end_reason_,
                   .step_seconds = steps_ == 0 ? 0 : step_seconds_ / static_cast<double>(steps_),
                   .profile = run_.profile(),
                   .evaluation = &evaluation_}));
  page_pace_.written(begin, now_seconds());
}

void RunReports::end_page(RunStatus status, Metrics end_metrics, std::string reason) {
  status_ = status;
  end_metrics_ = std::move(end_metrics);
  end_reason_ = std::move(reason);
  write_page();
}

}  // namespace shoehorn
