// This machine: what plans depend on, and what large operations reach on it. What its arithmetic alone could
// do is in exec/cpu/arithmetic_peak.h.
#pragma once

#include "plan/machine_profile.h"

namespace shoehorn::cpu {

// With a team of so many threads.
MachineProfile machine_profile(int threads);

// The best of several runs each, a second or a few in all; takes 0.15 GB while it runs.
MachineLimits measure_machine_limits();

}  // namespace shoehorn::cpu
