// The calibration that a command uses.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "exec/backend/backend.h"
#include "lab/calibration_file.h"

namespace shoehorn {

// calibration_fingerprint with the commit of this program.
nlohmann::json fingerprint_of_this_program(const Backend& backend);

// Of this machine, threads and program, from the user's cache; where there is none, why. With `anchored` a short step is
// run to see how fast the machine is now.
LoadedCalibration calibrated_costs(const std::shared_ptr<const Backend>& backend, bool anchored);

}  // namespace shoehorn
