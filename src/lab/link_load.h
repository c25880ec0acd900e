// What else ran on the hosts while links between ranks were measured. Ranks that had to wait for processors make a link look
// slower than it is, and plans would go by it for as long as it is kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/other_load.h"
#include "base/processors.h"
#include "ranks/communicator.h"

namespace shoehorn {

// As one rank saw it.
struct RankLoad {
  std::string host = {};
  std::string processors = {};  // that it may run on, as "0-3"; ranks that have the same share them
  int64_t processor_count = 1;
  double own = 0;  // of them it used so many, on average
  double others =
      -1;  // and other processes so many, its neighbours among the ranks included; below 0: unknown
  int64_t involuntary_switches = 0;  // times that it had to leave a processor to others
};

struct LinkLoad {
  std::vector<RankLoad> ranks = {};
  // How much all-reduces of the same bytes differed: the middle half of their times ÷ the median, of the bytes in the middle.
  double spread = 0;
};

// Why what was measured meanwhile is no link: "other processes used 1.3 of 2 processors of host-a"; "" for no reason.
std::string disturbance(const LinkLoad& load);

// The middle half of the samples ÷ their median. Of at least one.
double relative_spread(std::vector<double> seconds);

// Watches from its construction on.
class LinkWatch {
 public:
  LinkWatch();
  // What each rank saw, by rank. All ranks call it.
  std::vector<RankLoad> loads(Communicator& ranks) const;

 private:
  OtherLoad others_;
  ProcessorUse used_before_;
  double began_ = 0;
};

}  // namespace shoehorn
