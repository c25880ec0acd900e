#include "plan/machine_profile.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/processors.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// Keys of the file that no plan depends on.
constexpr std::array<std::string_view, 4> kKeysOfNoPlan = {"arithmetic_peaks", "memory_limit", "processors",
                                                           "thread_waits"};

// So that no sum of a forecast overflows.
constexpr int64_t kMostBytes = int64_t{1} << 60;

// Reads keys of an object, each once, and refuses those that nobody read.
class ProfileReader {
 public:
  ProfileReader(const json& object, const std::string& source) : object_(object), source_(source) {
    if (object.is_object()) return;
    throw user_error("[{}] expected an object, as `shoehorn env --json` prints it, got {}", source,
                     object.type_name());
  }

  void read(std::string_view name, std::string& member) {
    const json& value = find(name);
    if (!value.is_string()) throw wrong(name, "a text", value);
    member = value.get<std::string>();
  }
  void read(std::string_view name, bool& member) {
    const json& value = find(name);
    if (!value.is_boolean()) throw wrong(name, "true or false", value);
    member = value.get<bool>();
  }
  void read(std::string_view name, int64_t& member) {
    const json& value = find(name);
    const std::optional<int64_t> number = whole_number(value);
    if (!number || *number < 0 || *number > kMostBytes) throw wrong(name, "a whole number, 0 to 2^60", value);
    member = *number;
  }
  void read(std::string_view name, double& member) {
    const json& value = find(name);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
      throw wrong(name, "a number above 0", value);
    member = value.get<double>();
  }
  int read_threads() {
    int64_t threads = 0;
    read("threads", threads);
    if (threads < 1 || threads > kMostThreads)
      throw wrong("threads", fmt::format("a number from 1 to {}", kMostThreads), object_.at("threads"));
    return static_cast<int>(threads);
  }

  void refuse_others() const {
    for (const auto& [name, value] : object_.items()) {
      const auto is_name = [&key = name](std::string_view known) { return known == key; };
      if (std::any_of(read_.begin(), read_.end(), is_name) ||
          std::any_of(kKeysOfNoPlan.begin(), kKeysOfNoPlan.end(), is_name)) {
        continue;
      }
      throw user_error("[{}: {}] expected only the keys that `shoehorn env --json` prints, got another",
                       source_, name);
    }
  }

 private:
  const json& find(std::string_view name) {
    read_.push_back(name);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      throw user_error(
          "[{}: {}] expected it, got none; make the file with `shoehorn env --json` of this version", source_,
          name);
    }
    return *found;
  }
  UserError wrong(std::string_view name, const std::string& expected, const json& value) const {
    return user_error("[{}: {}] expected {}, got {}", source_, name, expected, value.dump());
  }

  const json& object_;
  const std::string& source_;
  std::vector<std::string_view> read_;
};

}  // namespace

bool plans_alike(const MachineProfile& a, const MachineProfile& b) {
  MachineProfile same = b;
  same.cpu = a.cpu;
  return a == same;
}

OtherMachine other_machine_from_json(const json& object, const std::string& source) {
  ProfileReader reader(object, source);
  OtherMachine machine;
  reader.read("backend", machine.profile.backend);
  reader.read("cpu", machine.profile.cpu);
  reader.read("isa", machine.profile.isa);
  reader.read("products", machine.profile.products);
  machine.profile.threads = reader.read_threads();
  reader.read("bf16_products", machine.profile.bf16_products);
  reader.read("fp16_products", machine.profile.fp16_products);
  reader.read("device_is_host", machine.profile.device_is_host);
  reader.read("fp32_flops", machine.limits.fp32_flops);
  reader.read("bf16_flops", machine.limits.bf16_flops);
  reader.read("bytes_per_second", machine.limits.bytes_per_second);
  reader.read("available_memory_bytes", machine.available_memory_bytes);
  reader.read("process_overhead_bytes", machine.process_overhead_bytes);
  reader.refuse_others();
  return machine;
}

json to_json(const OtherMachine& machine, const std::vector<ArithmeticPeak>& peaks,
             const std::string& memory_limit) {
  const MachineProfile& profile = machine.profile;
  json rows = json::array();
  for (const ArithmeticPeak& peak : peaks) {
    json row = {{"name", peak.name}, {"operands", dtype_name(peak.operands)}, {"measured", peak.is_measured}};
    if (peak.is_measured) {
      row["flops_one_thread"] = peak.flops_one_thread;
      row["flops_all_threads"] = peak.flops_all_threads;
    }
    rows.push_back(std::move(row));
  }
  return {{"backend", profile.backend},
          {"cpu", profile.cpu},
          {"isa", profile.isa},
          {"threads", profile.threads},
          {"products", profile.products},
          {"bf16_products", profile.bf16_products},
          {"fp16_products", profile.fp16_products},
          {"device_is_host", profile.device_is_host},
          {"fp32_flops", machine.limits.fp32_flops},
          {"bf16_flops", machine.limits.bf16_flops},
          {"bytes_per_second", machine.limits.bytes_per_second},
          {"arithmetic_peaks", std::move(rows)},
          {"available_memory_bytes", machine.available_memory_bytes},
          {"process_overhead_bytes", machine.process_overhead_bytes},
          {"memory_limit", memory_limit}};
}

OtherMachine load_other_machine(const std::filesystem::path& path) {
  return other_machine_from_json(read_json(path), path.string());
}

}  // namespace shoehorn
