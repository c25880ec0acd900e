#include "exec/cpu/settled_best.h"

#include <algorithm>
#include <vector>

namespace shoehorn::cpu {

double settled_best_seconds(size_t least_runs, double most_seconds, const std::function<double()>& run) {
  constexpr std::ptrdiff_t kAlike = 3;
  constexpr double kWithin = 1.03;
  std::vector<double> runs;
  double all_seconds = 0;
  while (true) {
    runs.push_back(run());
    all_seconds += runs.back();
    if (runs.size() < least_runs) continue;
    const double best = *std::min_element(runs.begin(), runs.end());
    const auto alike =
        std::count_if(runs.begin(), runs.end(), [best](double one) { return one <= best * kWithin; });
    if (alike >= kAlike || all_seconds >= most_seconds) return best;
  }
}

}  // namespace shoehorn::cpu
