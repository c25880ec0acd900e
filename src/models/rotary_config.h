// Rotary position embeddings as config.json describes them: rope_parameters, or rope_scaling and rope_theta of files
// before transformers 5.
//
// The frequencies of longrope (Ding et al., 2024) and dynamic NTK scaling depend on a length. It is the longest sequence
// that a program has room for, so that all sequences of a program have the same frequencies, whatever they are packed with.
// transformers takes the longest of the batch in hand.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_builder.h"

namespace shoehorn {

struct RotaryShape {
  int64_t head_size = 0;
  int64_t max_positions = 0;  // the config's
  float theta = 10000;        // where the config names none
};

// Dynamic NTK scaling: for T tokens, more than P positions, theta grows by (factor · T / P - (factor - 1))^(D / (D - 2)),
// where D is the number of rotary dimensions.
struct DynamicRope {
  double theta = 0;
  double factor = 1;
};

struct Rotary {
  RotaryFrequencies frequencies = {};  // of programs whose longest sequence has at most `short_positions`
  int64_t short_positions = std::numeric_limits<int64_t>::max();
  // Of programs with longer ones: longrope's long_factor, or dynamic. Neither: there are none.
  std::vector<float> long_frequencies = {};
  std::optional<DynamicRope> dynamic = {};
  int64_t max_positions = 0;  // the longest sequence that can be computed

  // Of a program whose longest sequence has so many tokens.
  RotaryFrequencies for_length(int64_t longest) const;
};

// UserError naming file and key: an unknown rope_type, a value that is missing or out of its range.
Rotary rotary_from_json(const nlohmann::json& config, const RotaryShape& shape, const std::string& file);

}  // namespace shoehorn
