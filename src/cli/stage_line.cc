#include "cli/stage_line.h"

#include "cli/notice_printer.h"

namespace shoehorn {

StageLine::StageLine(const std::string& what, const TrainingArguments& args)
    : options_(progress_options(args)) {
  if (options_.stream == nullptr || !options_.terminal) return;
  *options_.stream << what << (options_.unicode ? " …" : " ...") << std::flush;
}

StageLine::~StageLine() {
  if (options_.stream == nullptr || !options_.terminal) return;
  *options_.stream << "\r\x1b[K" << std::flush;
}

ProgressOptions measured_steps_progress(const TrainingArguments& args) {
  ProgressOptions options = beside_main_work(progress_options(args));
  options.on_log_line = {};
  return options;
}

MachineLimits measured_limits(const Backend& backend, const TrainingArguments& args) {
  const StageLine line("measuring what this machine reaches", args);
  return backend.measure_limits();
}

}  // namespace shoehorn
