#include "ranks/host_probe.h"

#include <algorithm>
#include <cstddef>

#include "base/child_process.h"
#include "base/concurrently.h"

namespace shoehorn {

std::vector<std::string> lost_hosts(MpiEngine engine, const std::string& mpirun,
                                    const std::vector<std::string>& hosts, double limit_seconds) {
  constexpr size_t kMostAtATime = 64;
  std::vector<char> is_lost(hosts.size());  // not bool: threads write elements
  run_concurrently(hosts.size(), std::min(hosts.size(), kMostAtATime), [&](size_t i) {
    std::vector<std::string> words = words_of_one_rank_on(engine, mpirun, hosts[i]);
    words.emplace_back("true");
    const FinishedProcess probe = run_process(words, {}, limit_seconds);
    is_lost[i] = probe.exit_code != 0 ? 1 : 0;
  });
  std::vector<std::string> lost;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (is_lost[i] != 0) lost.push_back(hosts[i]);
  }
  return lost;
}

}  // namespace shoehorn
