#include "cli/calibrated_costs.h"

#include <nlohmann/json.hpp>

#include "cli/version.h"
#include "lab/calibration.h"

namespace shoehorn {

nlohmann::json fingerprint_of_this_program(const Backend& backend) {
  return calibration_fingerprint(backend.machine(), version_json()["commit"].get<std::string>());
}

LoadedCalibration calibrated_costs(const std::shared_ptr<const Backend>& backend, bool anchored) {
  const nlohmann::json fingerprint = fingerprint_of_this_program(*backend);
  LoadedCalibration loaded = load_calibration(calibration_path(fingerprint), fingerprint);
  if (anchored && loaded.costs) loaded.costs->set_clock(anchored_clock(*loaded.costs, backend));
  return loaded;
}

}  // namespace shoehorn
