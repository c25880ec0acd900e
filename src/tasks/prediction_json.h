// How every task writes a prediction.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json_file.h"

namespace shoehorn {

// The object on a line of its own, keys in their order, characters as they are.
inline std::string format_prediction(const nlohmann::ordered_json& prediction) {
  return format_json(prediction,
                     {.indent = -1, .sort_keys = false, .ensure_ascii = false, .final_newline = true});
}

}  // namespace shoehorn
