// The profile of this machine and its measured limits. The peak rates of its arithmetic alone are in
// exec/cpu/arithmetic_peak.h.
#pragma once

#include "plan/machine_profile.h"

namespace shoehorn::cpu {

// The profile for an OpenMP team of `threads` threads.
MachineProfile machine_profile(int threads);

// Each limit is the best of several runs (settled_best.h). Takes a second in all, on a busy machine up to five, and 0.15 GB
// of memory meanwhile.
MachineLimits measure_machine_limits();

}  // namespace shoehorn::cpu
