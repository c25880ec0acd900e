// The format of predictions, common to all tasks.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json_file.h"

namespace shoehorn {

// The object as one line, with keys in the given order and without \u escapes.
inline std::string format_prediction(const nlohmann::ordered_json& prediction) {
  return format_json(prediction,
                     {.indent = -1, .sort_keys = false, .ensure_ascii = false, .final_newline = true});
}

}  // namespace shoehorn
