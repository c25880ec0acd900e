// Describes the machine of a result, for its title, remarks and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/rungs.h"
#include "plan/machine_profile.h"

namespace shoehorn {

std::string format_machine(const MachineProfile& machine);
nlohmann::ordered_json to_json(const MachineProfile& machine);

// For a plan for another machine: which one, and what is unknown about it.
std::string format_absent_machine(const MachineProfile& machine);
nlohmann::ordered_json absent_machine_to_json(const MachineProfile& machine);

// The type in which this machine multiplies for --fp16 and --bf16, for each of them that some setting uses,
// if it is not that type itself.
std::vector<std::string> half_product_remarks(const std::vector<const Rung*>& measured);

}  // namespace shoehorn
