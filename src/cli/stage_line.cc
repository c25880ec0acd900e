#include "cli/stage_line.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/other_load.h"
#include "cli/notice_printer.h"
#include "exec/backend/thread_count.h"

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

MachineLimits silently_measured_limits(const Backend& backend, const TrainingArguments& args) {
  const StageLine line("measuring what this machine reaches", args);
  return backend.measure_limits();
}

MachineLimits measured_limits(const Backend& backend, const TrainingArguments& args) {
  const OtherLoad others;
  const MachineLimits limits = silently_measured_limits(backend, args);
  const ThreadCount count = thread_count();
  const std::string busy = other_load_text(others.processors(), count.threads, count.processors.allowed);
  const auto notice = notice_printer(args, stderr);
  if (notice && !busy.empty())
    notice(fmt::format("measuring what this machine reaches: {}; idle, it reaches more", busy));
  return limits;
}

}  // namespace shoehorn
