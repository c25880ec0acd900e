// What a calibration (lab/calibration.h) found, in a file of the user's cache, with what it holds for.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "analysis/op_costs.h"
#include "plan/machine_profile.h"

namespace shoehorn {

// {"cpu", "isa", "products" (the library), "threads", "processors" (first_processor_list()), "commit"}: times
// hold for one processor, library, set of threads and program.
nlohmann::json calibration_fingerprint(const MachineProfile& machine, const std::string& commit);

// $XDG_CACHE_HOME or ~/.cache, then shoehorn/calibration/<hash>.json: one file for each fingerprint but for the commit, so
// that the file of an older program is found, and said to be one.
std::filesystem::path calibration_path(const nlohmann::json& fingerprint);

// Makes the directories. UserError or SystemError if that or the writing fails.
void save_calibration(const std::filesystem::path& path, const nlohmann::json& fingerprint,
                      const OpCosts& costs, bool is_quick);

struct LoadedCalibration {
  std::optional<OpCosts> costs = {};
  bool is_quick = false;
  // Why there are none: absent, of another machine or program, or damaged. Of a quick one, that it is one.
  std::string notice = {};
};

// Never an error: what cannot be used is not used, and the notice says why and what to do.
LoadedCalibration load_calibration(const std::filesystem::path& path, const nlohmann::json& fingerprint);

}  // namespace shoehorn
