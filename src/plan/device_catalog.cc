#include "plan/device_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

using nlohmann::json;

constexpr int64_t kUnlimited = int64_t{1} << 50;

const std::map<std::string, std::string>& units() {
  static const std::map<std::string, std::string> all = {
      {"memory", "bytes"},      {"bandwidth", "bytes/s"}, {"float32", "flop/s"}, {"tfloat32", "flop/s"},
      {"bfloat16", "flop/s"},   {"float16", "flop/s"},    {"float8", "flop/s"},  {"link", "bytes/s"},
      {"host_link", "bytes/s"}, {"cores", "cores"},       {"base_clock", "Hz"}};
  return all;
}

// "NVIDIA A100-80GB": a100, 80gb. Makers are left out.
std::vector<std::string> parts_of_name(const std::string& text) {
  static const std::set<std::string> makers = {"nvidia", "amd", "intel"};
  std::vector<std::string> parts;
  std::string part;
  const auto end_part = [&] {
    if (!part.empty() && !makers.contains(part)) parts.push_back(part);
    part.clear();
  };
  for (const char character : text) {
    if (std::isalnum(static_cast<unsigned char>(character)) != 0)
      part += static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
    else
      end_part();
  }
  end_part();
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ""));
}

// True if each part that is asked for is one of the device's: "9654" of epyc-9654. A piece of a part is not: an L40 is no
// L40S.
bool has_parts(const Device& device, const std::vector<std::string>& asked) {
  std::set<std::string> own;
  std::vector<std::string> names = device.aliases;
  names.insert(names.end(), {device.name, device.title});
  for (const std::string& name : names) {
    for (std::string& part : parts_of_name(name)) own.insert(std::move(part));
  }
  return !asked.empty() &&
         std::all_of(asked.begin(), asked.end(), [&](const std::string& part) { return own.contains(part); });
}

// Refuses all but what the form has.
class DeviceReader {
 public:
  DeviceReader(const json& object, std::string source) : object_(object), source_(std::move(source)) {
    static const std::set<std::string> keys = {"format",  "name",    "title",   "kind",
                                               "aliases", "sources", "figures", "note"};
    if (!object.is_object()) throw wrong("", "an object", object);
    for (const auto& [key, value] : object.items())
      if (!keys.contains(key)) throw wrong(key, "none of this name", value);
  }

  UserError wrong(const std::string& key, const std::string& expected, const json& got) const {
    return user_error("[{}: {}] expected {}, got {}", source_, key, expected, got.dump());
  }
  const json& at(const std::string& key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw wrong(key, "it", json());
    return *found;
  }
  std::string text(const std::string& key) const {
    const json& value = at(key);
    if (!value.is_string() || value.get<std::string>().empty()) throw wrong(key, "a text", value);
    return value.get<std::string>();
  }
  std::vector<std::string> texts(const std::string& key) const {
    const json& value = at(key);
    const bool is_list = value.is_array() && std::all_of(value.begin(), value.end(),
                                                         [](const json& one) { return one.is_string(); });
    if (!is_list) throw wrong(key, "a list of texts", value);
    return value.get<std::vector<std::string>>();
  }

 private:
  const json& object_;
  std::string source_;
};

std::map<std::string, double> read_figures(const DeviceReader& reader, size_t sources) {
  const json& object = reader.at("figures");
  if (!object.is_object()) throw reader.wrong("figures", "an object", object);
  std::map<std::string, double> figures;
  for (const auto& [name, figure] : object.items()) {
    const auto unit = units().find(name);
    if (unit == units().end()) throw reader.wrong(name, "a known figure", figure);
    const bool is_whole = figure.is_object() && figure.size() == 3 && figure.contains("value") &&
                          figure.contains("unit") && figure.contains("source");
    if (!is_whole) throw reader.wrong(name, "value, unit and source", figure);
    const json& value = figure["value"];
    if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
      throw reader.wrong(name, "a value above 0", figure);
    if (figure["unit"] != unit->second) throw reader.wrong(name, "the unit " + unit->second, figure);
    const std::optional<int64_t> source = whole_number(figure["source"]);
    if (!source || *source < 0 || *source >= static_cast<int64_t>(sources))
      throw reader.wrong(name, "the number of one of its sources", figure);
    figures[name] = value.get<double>();
  }
  return figures;
}

}  // namespace

double Device::figure(const std::string& name) const {
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : found->second;
}

double Device::peak_flops(DType operands) const {
  return std::max(figure(std::string(dtype_name(operands))), figure("float32"));
}

bool Device::answers_to(const std::string& asked) const {
  const std::vector<std::string> parts = parts_of_name(asked);
  const auto is_asked = [&](const std::string& own) { return joined(parts_of_name(own)) == joined(parts); };
  return is_asked(name) || is_asked(title) || std::any_of(aliases.begin(), aliases.end(), is_asked);
}

Device device_from_json(const json& object, const std::string& source) {
  const DeviceReader reader(object, source);
  if (reader.at("format") != 1) throw reader.wrong("format", "1", reader.at("format"));
  Device device{.name = reader.text("name"), .title = reader.text("title")};
  const std::string kind = reader.text("kind");
  if (kind != "gpu" && kind != "cpu") throw reader.wrong("kind", "gpu or cpu", kind);
  device.is_gpu = kind == "gpu";
  device.aliases = reader.texts("aliases");
  const std::vector<std::string> sources = reader.texts("sources");
  device.figures = read_figures(reader, sources.size());
  std::vector<std::string> needed = {"float32", "bandwidth"};
  if (device.is_gpu) needed.emplace_back("memory");
  for (const std::string& name : needed)
    if (device.figure(name) == 0) throw reader.wrong(name, "it among the figures", json());
  return device;
}

std::vector<Device> load_devices(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Device> devices;
  for (const std::filesystem::path& file : files) {
    Device device = device_from_json(read_json(file), file.string());
    std::vector<std::string> names = device.aliases;
    names.push_back(device.name);
    for (const std::string& name : names) {
      for (const Device& other : devices) {
        if (other.answers_to(name))
          throw user_error("[{}] expected a name that no other device has, got '{}', as {}", file.string(),
                           name, other.name);
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

const Device& find_device(const std::vector<Device>& devices, const std::string& name,
                          const std::string& what) {
  std::vector<std::string> names, all_names;
  std::vector<const Device*> meant;
  for (const Device& device : devices) {
    if (device.answers_to(name)) return device;
    names.push_back(device.name);
    all_names.push_back(device.name);
    all_names.insert(all_names.end(), device.aliases.begin(), device.aliases.end());
    if (has_parts(device, parts_of_name(name))) meant.push_back(&device);
  }
  if (meant.size() == 1) return *meant[0];
  const std::string asked = joined(parts_of_name(name));
  std::string hint = asked.empty() ? "" : did_you_mean(nearest_name(asked, all_names));
  if (meant.size() > 1) {
    std::vector<std::string> several;
    for (const Device* device : meant) several.push_back(device->name);
    hint = fmt::format("; it may be {}", fmt::join(several, " or "));
  }
  throw user_error("[{}] expected a file that `shoehorn env --json` wrote, or one of {}, got '{}'{}", what,
                   fmt::join(names, ", "), name, hint);
}

OtherMachine machine_of(const Device& device) {
  const double memory = device.figure("memory");
  return {.profile = {.backend = "cpu",
                      .cpu = device.title,
                      .isa = "as its data sheet says",
                      .products = "not measured",
                      .threads = 1,
                      .bf16_products = device.figure("bfloat16") > 0,
                      .fp16_products = device.figure("float16") > 0,
                      .device_is_host = !device.is_gpu},
          .limits = {.fp32_flops = device.figure("float32"),
                     .bf16_flops = device.peak_flops(DType::kBF16),
                     .bytes_per_second = device.figure("bandwidth")},
          .available_memory_bytes = memory > 0 ? static_cast<int64_t>(memory) : kUnlimited};
}

}  // namespace shoehorn
