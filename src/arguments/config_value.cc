#include "arguments/config_value.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace shoehorn {

bool asks_for_nothing(const nlohmann::json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

std::string json_line(const nlohmann::json& value) {
  return format_json(value, {.indent = -1, .ensure_ascii = false, .final_newline = false});
}

}  // namespace shoehorn
