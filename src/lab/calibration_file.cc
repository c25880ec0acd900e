#include "lab/calibration_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

constexpr int kFormat = 1;

std::string hash_of(const nlohmann::json& json) {
  const std::string text = json.dump();
  ContentHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

std::string allowed_processors() {
  std::ifstream status("/proc/self/status");
  const std::string key = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return "unknown";
}

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

}  // namespace

nlohmann::json calibration_fingerprint(const MachineProfile& machine, const std::string& commit) {
  return {{"cpu", machine.cpu},         {"isa", machine.isa}, {"products", machine.products},
          {"threads", machine.threads}, {"commit", commit},   {"processors", allowed_processors()}};
}

std::filesystem::path calibration_path(const nlohmann::json& fingerprint) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = variable("HOME") / ".cache";
  nlohmann::json machine = fingerprint;
  machine.erase("commit");
  return cache / "shoehorn" / "calibration" / (hash_of(machine) + ".json");
}

void save_calibration(const std::filesystem::path& path, const nlohmann::json& fingerprint,
                      const OpCosts& costs) {
  const MachineLimits& limits = costs.limits();
  nlohmann::json content = {{"format", kFormat},
                            {"fingerprint", fingerprint},
                            {"limits",
                             {{"fp32_flops", limits.fp32_flops},
                              {"bf16_flops", limits.bf16_flops},
                              {"bytes_per_second", limits.bytes_per_second}}},
                            {"operations", to_json(costs.samples())}};
  make_directories(path.parent_path());
  const std::string hash = hash_of(content);
  write_json_atomic(path, nlohmann::json{{"content", std::move(content)}, {"hash", hash}});
}

LoadedCalibration load_calibration(const std::filesystem::path& path, const nlohmann::json& fingerprint) {
  LoadedCalibration loaded;
  const auto unusable = [&](const std::string& why) {
    loaded.notice = fmt::format("Times are not calibrated: {}; `shoehorn calibrate` does it\n", why);
    return std::move(loaded);
  };
  if (!path_exists(path)) return unusable("nobody did it for this machine and number of threads");
  try {
    const nlohmann::json file = read_json(path);
    const nlohmann::json& content = file.at("content");
    if (file.at("hash") != hash_of(content)) return unusable(fmt::format("{} is damaged", path.string()));
    if (content.at("format") != kFormat) return unusable(fmt::format("{} has another format", path.string()));
    if (content.at("fingerprint") != fingerprint) {
      return unusable(fmt::format("{} is of another machine or program ({})", path.string(),
                                  differences(content.at("fingerprint"), fingerprint)));
    }
    const nlohmann::json& limits = content.at("limits");
    const MachineLimits rates = {.fp32_flops = limits.at("fp32_flops").get<double>(),
                                 .bf16_flops = limits.at("bf16_flops").get<double>(),
                                 .bytes_per_second = limits.at("bytes_per_second").get<double>()};
    loaded.costs.emplace(rates, op_samples_from_json(content.at("operations"), path.string()));
  } catch (const UserError& error) {
    return unusable(error.what());
  } catch (const SystemError& error) {
    return unusable(error.what());
  } catch (const nlohmann::json::exception&) {
    return unusable(fmt::format("{} is damaged", path.string()));
  }
  return loaded;
}

}  // namespace shoehorn
