#include "train/run_reports.h"

#include <filesystem>

#include "io/file.h"

namespace shoehorn {

void RunReports::open(const std::string& model_config) {
  live_.emplace(args_, model_config, state_.global_step);
}

const Metrics& RunReports::log(Metrics entry) {
  const Metrics& logged = state_.log(std::move(entry));
  if (live_) live_->log(logged);
  return logged;
}

void RunReports::add_step(double seconds, int64_t samples) {
  seconds_since_log_ += seconds;
  samples_since_log_ += samples;
}

void RunReports::end_throughput() {
  if (!reports_to(args_, "html") || seconds_since_log_ <= 0) return;
  throughput_.push_back({state_.global_step, static_cast<double>(samples_since_log_) / seconds_since_log_});
  seconds_since_log_ = 0;
  samples_since_log_ = 0;
}

void RunReports::write_page() const {
  if (!reports_to(args_, "html")) return;
  write_text_atomic(std::filesystem::path(args_.output_dir) / "report.html",
                    html_report({args_, state_, run_.session(), run_.forecast(), end_metrics_, throughput_,
                                 run_.profile(), &evaluation_}));
}

void RunReports::write_page(Metrics end_metrics) {
  end_metrics_ = std::move(end_metrics);
  write_page();
}

}  // namespace shoehorn
