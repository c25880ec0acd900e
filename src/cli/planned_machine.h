// The machine that a command plans for: this one, or that of --machine_profile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments/argument_table.h"
#include "exec/backend/backend.h"
#include "plan/device_catalog.h"

namespace shoehorn {

struct PlannedMachine {
  std::shared_ptr<const Backend> backend;
  std::optional<Device> device = {};  // of the catalogue; times are then what its data sheet allows at best
};

// The row of --machine_profile.
ArgumentSpec machine_profile_row();

// `name`: empty for this machine; a file that `shoehorn env --json` wrote; or a name of the catalogue (devices/*.json beside
// the build, or where the program is installed). UserError for anything else, with the names.
PlannedMachine open_planned_machine(const std::string& name, const TrainingArguments& args);

}  // namespace shoehorn
