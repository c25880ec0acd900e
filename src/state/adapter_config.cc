#include "state/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments/argument_checks.h"
#include "base/error.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "passes/module_names.h"
#include "state/adapter_tensors.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Keys that are read below, and those that say where an adapter comes from or how it was started, not what it
// computes. (PEFT itself corrects fan_in_fan_out by the layer's class.) Any other must be unset.
constexpr std::array<std::string_view, 23> kHarmlessKeys = {"auto_mapping",
                                                            "base_model_name_or_path",
                                                            "bias",
                                                            "corda_config",
                                                            "ensure_weight_tying",
                                                            "eva_config",
                                                            "fan_in_fan_out",
                                                            "inference_mode",
                                                            "init_lora_weights",
                                                            "loftq_config",
                                                            "lora_alpha",
                                                            "lora_dropout",
                                                            "lora_ga_config",
                                                            "megatron_core",
                                                            "modules_to_save",
                                                            "peft_type",
                                                            "peft_version",
                                                            "qalora_group_size",
                                                            "r",
                                                            "revision",
                                                            "runtime_config",
                                                            "target_modules",
                                                            "task_type"};

// Starts that leave the base model as it is.
constexpr std::array<std::string_view, 3> kPlainStarts = {"gaussian", "eva", "orthogonal"};

bool is_unset(const json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

class ConfigReader {
 public:
  explicit ConfigReader(const fs::path& directory)
      : file_(directory / kAdapterConfigName), config_(read_json(file_)) {
    if (!config_.is_object())
      throw user_error("[{}] expected an object, got {}", file_.string(), config_.dump());
  }

  void check_kind() const {
    if (value("peft_type") != "LORA") throw wrong("peft_type", "LORA");
    if (const json bias = value("bias"); !bias.is_null() && bias != "none") throw wrong("bias", "none");
    const json start = value("init_lora_weights");
    const bool is_plain = start.is_null() || start.is_boolean() ||
                          (start.is_string() && std::find(kPlainStarts.begin(), kPlainStarts.end(),
                                                          start.get<std::string>()) != kPlainStarts.end());
    if (!is_plain)
      throw wrong("init_lora_weights", "a start that leaves the base model's weights as they are");
    for (const auto& [key, found] : config_.items()) {
      const bool is_harmless =
          std::find(kHarmlessKeys.begin(), kHarmlessKeys.end(), key) != kHarmlessKeys.end();
      if (!is_harmless && !is_unset(found)) throw wrong(key, "it unset: this version has plain LoRA only");
    }
  }

  int64_t rank() const {
    const std::optional<int64_t> found = whole_number(value("r"));
    if (!found || *found < 1 || *found > kLargestLoraRank)
      throw wrong("r", fmt::format("an integer from 1 to {}", kLargestLoraRank));
    return *found;
  }
  float number(const char* key, float standard, double low, double high, const char* expected) const {
    const json found = value(key);
    if (found.is_null()) return standard;
    if (!found.is_number() || !(found.get<double>() >= low && found.get<double>() < high))
      throw wrong(key, expected);
    return found.get<float>();
  }
  bool flag(const char* key) const {
    const json found = value(key);
    if (!found.is_null() && !found.is_boolean()) throw wrong(key, "true or false");
    return found == true;
  }
  std::string text(const char* key) const {
    const json found = value(key);
    if (found.is_null()) return {};
    if (!found.is_string()) throw wrong(key, "a text");
    return found.get<std::string>();
  }
  // Nothing where the key is unset.
  std::vector<std::string> names(const char* key) const {
    const json found = value(key);
    if (found.is_null()) return {};
    std::vector<std::string> names;
    if (found == "all-linear") return {"all-linear"};
    if (!found.is_array()) throw wrong(key, "a list of names of modules");
    for (const json& name : found) {
      if (!name.is_string()) throw wrong(key, "a list of names of modules");
      names.push_back(name.get<std::string>());
    }
    return names;
  }

 private:
  json value(const char* key) const { return config_.value(key, json()); }

  UserError wrong(std::string_view key, std::string_view expected) const {
    return user_error("[{}: {}] expected {}, got {}", file_.string(), key, expected,
                      value(std::string(key).c_str()).dump());
  }

  fs::path file_;
  json config_;
};

// 0.1, not the nearest double of the nearest float.
json shortest(float value) {
  if (value == std::floor(value) && std::abs(value) < 1e9F) return static_cast<int64_t>(value);
  return std::stod(fmt::format("{}", value));
}

// Those of the names that have tensors.
template <typename HasTensor>
std::vector<std::string> present(const std::vector<std::string>& names,
                                 const std::vector<std::string>& tensors, const HasTensor& has_tensor) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const std::string& tensor) { return has_tensor(tensor, name); }))
      found.push_back(name);
  }
  return found;
}

// JSON holds no other names than UTF-8: below a directory of another, the path as it was given.
std::string base_path_text(const fs::path& base) {
  std::string path = fs::absolute(base).lexically_normal().string();
  return is_valid_utf8(path) ? path : base.string();
}

}  // namespace

bool is_adapter_directory(const fs::path& directory) {
  return path_exists(directory / kAdapterConfigName);
}

AdapterConfig read_adapter_config(const fs::path& directory) {
  const ConfigReader reader(directory);
  reader.check_kind();
  AdapterConfig config;
  config.base_model_name_or_path = reader.text("base_model_name_or_path");
  config.ensure_weight_tying = reader.flag("ensure_weight_tying");
  LoraOptions& lora = config.lora;
  lora.rank = reader.rank();
  lora.alpha = reader.number("lora_alpha", 8, 1e-30, 1e30, "a number above 0");
  lora.dropout = reader.number("lora_dropout", 0, 0, 1, "a number in [0, 1)");
  const std::vector<std::string> tensors = adapter_tensor_names(directory);
  lora.targets = reader.names("target_modules");
  if (lora.targets != std::vector<std::string>{"all-linear"}) {
    // Those that PEFT takes for the architectures there are; a model has one pair of them, or the one of GPT-2.
    if (lora.targets.empty())
      lora.targets = {"query", "value", "q_lin", "v_lin", "q_proj", "v_proj", "c_attn"};
    lora.targets = present(lora.targets, tensors, [](const std::string& tensor, const std::string& name) {
      return tensor.ends_with(kLowRankASuffix) &&
             names_module(tensor.substr(0, tensor.size() - kLowRankASuffix.size()), name);
    });
  }
  if (lora.targets.empty()) {
    throw user_error("[{}] expected tensors of low-rank adapters for target_modules, got none",
                     (directory / kAdapterWeightsName).string());
  }
  lora.modules_to_save = present(
      reader.names("modules_to_save"), tensors,
      [](const std::string& tensor, const std::string& name) { return names_module_of(tensor, name); });
  if (lora.modules_to_save.empty()) lora.modules_to_save = {"none"};
  return config;
}

void check_weight_tying(const fs::path& directory, const AdapterConfig& config,
                        const std::map<std::string, std::string>& other_names) {
  if (config.ensure_weight_tying) return;
  for (const auto& [table, head] : other_names) {
    for (const std::string& name : config.lora.modules_to_save) {
      if (!names_module_of(table, name) && !names_module_of(head, name)) continue;
      throw user_error(
          "[{}: ensure_weight_tying] expected true for '{}' of modules_to_save, since {} of the base model is {} too, "
          "got false or nothing, which takes the two apart; let PEFT train with ensure_weight_tying=True, or, if "
          "Shoehorn trained it, write true into the file",
          (directory / kAdapterConfigName).string(), name, table, head);
    }
  }
}

fs::path base_model_directory(const fs::path& adapter, const AdapterConfig& config) {
  const std::string& name = config.base_model_name_or_path;
  const std::string file = (adapter / kAdapterConfigName).string();
  if (name.empty())
    throw user_error("[{}: base_model_name_or_path] expected the base model's directory, got nothing", file);
  std::error_code error;
  for (const fs::path& candidate : {fs::path(name), adapter / name}) {
    if (fs::is_directory(candidate, error)) return candidate;
  }
  throw user_error(
      "[{}: base_model_name_or_path] expected the directory of the base model, got '{}', which is neither in "
      "the working directory nor beside the adapter; fetch the model (nothing is downloaded) and write its "
      "path into the file",
      file, name);
}

void write_adapter_config(const fs::path& directory, const fs::path& base, const LoraOptions& options,
                          const AdapterSet& adapters) {
  const bool is_transposed = std::any_of(adapters.list.begin(), adapters.list.end(),
                                         [](const LowRankAdapter& each) { return each.is_transposed; });
  json config = {{"alpha_pattern", json::object()},
                 {"auto_mapping", nullptr},
                 {"base_model_name_or_path", base_path_text(base)},
                 {"bias", "none"},
                 {"fan_in_fan_out", is_transposed},
                 {"inference_mode", true},
                 {"init_lora_weights", true},
                 {"layers_pattern", nullptr},
                 {"layers_to_transform", nullptr},
                 {"lora_alpha", shortest(options.alpha)},
                 {"lora_dropout", shortest(options.dropout)},
                 {"modules_to_save", adapters.modules_to_save},
                 {"peft_type", "LORA"},
                 {"r", options.rank},
                 {"rank_pattern", json::object()},
                 {"revision", nullptr},
                 {"target_modules", adapters.target_modules},
                 {"task_type", adapters.task_type},
                 {"use_dora", false},
                 {"use_rslora", false}};
  if (adapters.modules_to_save.empty()) config["modules_to_save"] = nullptr;
  if (adapters.ensure_weight_tying) config["ensure_weight_tying"] = true;
  write_json_atomic(directory / kAdapterConfigName, config, {.final_newline = false});
}

}  // namespace shoehorn
