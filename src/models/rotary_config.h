// Rotary position embeddings as config.json describes them: rope_parameters, or rope_scaling and rope_theta of files
// before transformers 5.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model_builder.h"

namespace shoehorn {

struct RotaryShape {
  int64_t head_size = 0;
  int64_t max_positions = 0;  // the config's
  float theta = 10000;        // where the config names none
};

struct Rotary {
  RotaryFrequencies frequencies;
  // The longest sequence that has these frequencies. In longrope the batches with longer ones have others.
  int64_t max_positions = 0;
};

// UserError naming file and key: an unknown rope_type, a value that is missing or out of its range.
Rotary rotary_from_json(const nlohmann::json& config, const RotaryShape& shape, const std::string& file);

}  // namespace shoehorn
