// The machine that a result is from, in its title, its remarks and its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/rungs.h"
#include "exec/cpu/machine_limits.h"

namespace shoehorn {

std::string format_machine(const MachineFacts& machine);
nlohmann::ordered_json to_json(const MachineFacts& machine);

// What this machine multiplies for --fp16 and --bf16, for those of them that a setting has, where it is not
// the type itself.
std::vector<std::string> half_product_remarks(const std::vector<const Rung*>& measured);

}  // namespace shoehorn
