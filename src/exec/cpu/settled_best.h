// The best of repeated runs, where other processes may slow some of them down.
#pragma once

#include <cstddef>
#include <functional>

namespace shoehorn::cpu {

// A limit is what the machine reaches when nothing is in its way: the least of what `run` takes. Runs are repeated until
// three of them are within 3 % of the least, so that it is no chance, but at least `least_runs` times, and not begun after
// `most_seconds` of runs.
double settled_best_seconds(size_t least_runs, double most_seconds, const std::function<double()>& run);

}  // namespace shoehorn::cpu
