// Measures settings in turns, and again until the median of each is stable.
//
// A round runs one process of each setting that is not stable yet; every second round goes backwards, so that no setting
// always comes behind the same other. What slows the machine for a while then falls on all settings rather than on one.
// A setting is done when the median of its steps is stable (median_interval.h), or at a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/measured_step.h"
#include "lab/process_progress.h"

namespace shoehorn {

struct RoundLimits {
  double precision = 0.02;  // half of the median's interval ÷ the median
  int64_t least = 1;        // processes of a setting
  int64_t most = 5;
  double most_seconds =
      120;  // no further process of a setting begins when its processes have taken this long
};

struct RoundSetting {
  std::string name;                  // for progress
  std::function<StepRun()> measure;  // runs one process
  std::vector<StepRun> runs = {};    // in the order in which they were made
  double seconds = 0;                // what they took together
  bool is_done(const RoundLimits& limits) const;
};

// Calls `on_run` before the first process and after each (the number in all grows while settings are not stable), and
// `on_process` after each. A setting whose process measures nothing is not run again.
void measure_in_rounds(std::vector<RoundSetting>& settings, const RoundLimits& limits,
                       const RunProgress& on_run, const std::function<void()>& on_process = {});

// "until the median is known to 2 % (90 % interval), at most 5 processes or 120 s a setting"
std::string describe(const RoundLimits& limits);

}  // namespace shoehorn
