// Values of configuration files, whoever wrote them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shoehorn {

// Off: null, false, zero, or an empty text, list or object.
bool asks_for_nothing(const nlohmann::json& value);

// One line, as a file has it: NaN and Infinity too.
std::string json_line(const nlohmann::json& value);

}  // namespace shoehorn
