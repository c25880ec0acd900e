#include "lab/calibration_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/processors.h"
#include "lab/cached_json.h"

namespace shoehorn {

namespace {

constexpr int kFormat = 3;

// The keys whose values differ.
std::string differences(const nlohmann::json& theirs, const nlohmann::json& ours) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : ours.items()) {
    if (!theirs.contains(key) || theirs[key] != value)
      keys.push_back(
          fmt::format("{} {}, here {}", key, theirs.value(key, nlohmann::json()).dump(), value.dump()));
  }
  return fmt::format("{}", fmt::join(keys, "; "));
}

MachineClock clock_from_json(const nlohmann::json& clock) {
  return {.products = clock.at("products").get<double>(),
          .memory = clock.at("memory").get<double>(),
          .spread = clock.at("spread").get<double>(),
          .error = clock.at("error").get<double>()};
}

}  // namespace

nlohmann::json calibration_fingerprint(const MachineProfile& machine, const std::string& commit) {
  return {{"cpu", machine.cpu},         {"isa", machine.isa}, {"products", machine.products},
          {"threads", machine.threads}, {"commit", commit},   {"processors", first_processor_list()}};
}

std::filesystem::path calibration_path(const nlohmann::json& fingerprint) {
  nlohmann::json machine = fingerprint;
  machine.erase("commit");
  return cached_json_path("calibration", machine);
}

void save_calibration(const std::filesystem::path& path, const nlohmann::json& fingerprint,
                      const OpCosts& costs, bool is_quick) {
  const MachineLimits& limits = costs.limits();
  save_cached_json(path, {{"format", kFormat},
                          {"fingerprint", fingerprint},
                          {"quick", is_quick},
                          {"limits",
                           {{"fp32_flops", limits.fp32_flops},
                            {"bf16_flops", limits.bf16_flops},
                            {"bytes_per_second", limits.bytes_per_second}}},
                          {"clock",
                           {{"products", costs.clock().products},
                            {"memory", costs.clock().memory},
                            {"spread", costs.clock().spread},
                            {"error", costs.clock().error}}},
                          {"operations", to_json(costs.samples())}});
}

LoadedCalibration load_calibration(const std::filesystem::path& path, const nlohmann::json& fingerprint) {
  LoadedCalibration loaded;
  const auto unusable = [&](const std::string& why) {
    loaded.notice = fmt::format("Times are not calibrated: {}; `shoehorn calibrate` does it\n", why);
    return std::move(loaded);
  };
  const CachedJson file = load_cached_json(path);
  if (!file.content) {
    if (!file.defect.empty()) return unusable(file.defect);
    loaded.notice =
        "Times are not calibrated for this machine and number of threads; `shoehorn calibrate` measures them\n";
    return loaded;
  }
  try {
    const nlohmann::json& content = *file.content;
    if (content.at("format") != kFormat) return unusable(fmt::format("{} has another format", path.string()));
    if (content.at("fingerprint") != fingerprint) {
      return unusable(fmt::format("{} is of another machine or program ({})", path.string(),
                                  differences(content.at("fingerprint"), fingerprint)));
    }
    const nlohmann::json& limits = content.at("limits");
    const MachineLimits rates = {.fp32_flops = limits.at("fp32_flops").get<double>(),
                                 .bf16_flops = limits.at("bf16_flops").get<double>(),
                                 .bytes_per_second = limits.at("bytes_per_second").get<double>()};
    loaded.is_quick = content.at("quick").get<bool>();
    loaded.costs.emplace(rates, op_samples_from_json(content.at("operations"), path.string()));
    loaded.costs->set_clock(clock_from_json(content.at("clock")));
    if (loaded.is_quick)
      loaded.notice = "Times are by a quick calibration; `shoehorn calibrate` measures more operations\n";
  } catch (const UserError& error) {
    return unusable(error.what());
  } catch (const nlohmann::json::exception&) {
    return unusable(fmt::format("{} is damaged", path.string()));
  }
  return loaded;
}

}  // namespace shoehorn
