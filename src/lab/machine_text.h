// The machine that a result is from, in its title, its remarks and its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/rungs.h"
#include "plan/machine_profile.h"

namespace shoehorn {

std::string format_machine(const MachineProfile& machine);
nlohmann::ordered_json to_json(const MachineProfile& machine);

// Of a plan for a machine that is not here: which one, and what is not known of it.
std::string format_absent_machine(const MachineProfile& machine);
nlohmann::ordered_json absent_machine_to_json(const MachineProfile& machine);

// What this machine multiplies for --fp16 and --bf16, for those of them that a setting has, where it is not
// the type itself.
std::vector<std::string> half_product_remarks(const std::vector<const Rung*>& measured);

}  // namespace shoehorn
