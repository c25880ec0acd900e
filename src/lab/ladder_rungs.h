// The rungs of `bench ladder`, as data. They are the settings of the efficient-training guides: a model of
// 335 M parameters on random tokens with an effective batch of 4. Each rung is a set of flags for `shoehorn
// train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/rungs.h"

namespace shoehorn {

// The number of samples in every rung's optimizer step.
inline constexpr int64_t kLadderEffectiveBatch = 4;

// What the single-GPU guide of Transformers 4.25 measured: that model, 512 tokens, one V100 with 16 GB.
struct GuideFigures {
  double samples_per_second;
  int64_t memory_mib;
};

struct LadderRung : Rung {
  std::optional<GuideFigures> guide = {};
};

// The guides' settings in their order; then with bitsandbytes' 8-bit states; then the same in bf16; then all
// exact techniques together.
const std::vector<LadderRung>& ladder_rungs();

// The named rungs in the ladder's order; no names mean all. UserError for an unknown or repeated name.
std::vector<LadderRung> choose_rungs(const std::vector<std::string>& names);

// The rungs that --quick measures if it measures the Trainer too, whose processes take seconds to load
// libraries.
const std::vector<std::string>& quick_peer_rungs();

// A rung's flags for the Hugging Face Trainer; `left_out` are those that it does not have.
struct PeerFlags {
  std::vector<std::string> flags;
  std::vector<std::string> left_out;
};
PeerFlags peer_flags(const std::vector<std::string>& flags);

}  // namespace shoehorn
