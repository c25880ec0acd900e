// The machine that a result is from, in its title and its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "exec/cpu/machine_limits.h"

namespace shoehorn {

std::string format_machine(const MachineFacts& machine);
nlohmann::ordered_json to_json(const MachineFacts& machine);

}  // namespace shoehorn
