// The rungs of the ladder that the efficient-training guides climb, as data: settings of a model of 335 M
// parameters on random tokens with an effective batch of 4, each a set of flags that `shoehorn train` takes
// as they stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/rungs.h"

namespace shoehorn {

// Every rung's optimizer step is of this many samples.
inline constexpr int64_t kLadderEffectiveBatch = 4;

// What the single-GPU guide of Transformers 4.25 measured with that model at 512 tokens on one V100 of 16 GB.
struct GuideFigures {
  double samples_per_second;
  int64_t memory_mib;
};

struct LadderRung : Rung {
  std::optional<GuideFigures> guide = {};
};

// The settings of the guides in their order, then those with 8-bit states as bitsandbytes has them, then the
// same in bf16, then every exact technique at once.
const std::vector<LadderRung>& ladder_rungs();

// In the order of the ladder; no names are all of them. UserError for an unknown or repeated name.
std::vector<LadderRung> choose_rungs(const std::vector<std::string>& names);

// Those that --quick measures where the Trainer is measured too, a few seconds of loading libraries a
// process.
const std::vector<std::string>& quick_peer_rungs();

// A rung's flags as the Hugging Face Trainer takes them: `left_out` are those that it has not.
struct PeerFlags {
  std::vector<std::string> flags;
  std::vector<std::string> left_out;
};
PeerFlags peer_flags(const std::vector<std::string>& flags);

}  // namespace shoehorn
