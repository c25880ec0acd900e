#include "lab/rounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/step_profile.h"
#include "lab/median_interval.h"

namespace shoehorn {

namespace {

std::string line_of(const RoundSetting& setting) {
  const StepRun& run = setting.runs.back();
  if (!run.is_measured()) return fmt::format("{}: {}", setting.name, outcome_text(run.outcome));
  return fmt::format("{}: {:.3f} samples/s, {} MiB", setting.name, run.samples_per_second,
                     run.memory.training_bytes >> 20);
}

}  // namespace

bool RoundSetting::is_done(const RoundLimits& limits) const {
  const int64_t made = std::ssize(runs);
  if (made == 0) return false;
  if (!runs.back().is_measured() || made >= limits.most) return true;
  if (seconds >= limits.most_seconds) return true;
  return made >= limits.least && interval_of(pooled_run(runs)).is_stable(limits.precision);
}

void measure_in_rounds(std::vector<RoundSetting>& settings, const RoundLimits& limits,
                       const RunProgress& on_run, const std::function<void()>& on_process) {
  int64_t done = 0;
  int64_t of = std::ssize(settings) * std::min(limits.least, limits.most);
  if (on_run) on_run(0, of, "");
  for (int64_t round = 0;; ++round) {
    std::vector<RoundSetting*> open;
    for (RoundSetting& setting : settings) {
      if (!setting.is_done(limits)) open.push_back(&setting);
    }
    if (open.empty()) return;
    of = std::max(of, done + std::ssize(open));
    if (round % 2 == 1) std::reverse(open.begin(), open.end());
    for (RoundSetting* setting : open) {
      const double begin = now_seconds();
      setting->runs.push_back(setting->measure());
      setting->seconds += now_seconds() - begin;
      ++done;
      if (on_run) on_run(done, of, line_of(*setting));
      if (on_process) on_process();
    }
  }
}

std::string describe(const RoundLimits& limits) {
  return fmt::format(
      "until the median is known to {:.3g} % ({:.0f} % interval), at most {} process{} or {:.3g} s a "
      "setting",
      100 * limits.precision, 100 * kConfidence, limits.most, limits.most == 1 ? "" : "es",
      limits.most_seconds);
}

}  // namespace shoehorn
