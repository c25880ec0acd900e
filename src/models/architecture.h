// An architecture as the registry knows it: its name, how models of it are made, and what may be set of them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/model.h"

namespace shoehorn {

// A model with new weights from a parsed config.json. `file` is named in errors.
using MakeModel = std::unique_ptr<Model> (*)(const nlohmann::json& config, const std::string& file);

// A key of config.json that transformers knows by a second name as well, its attribute_map.
struct ConfigKeyAlias {
  std::string_view alias;  // "hidden_size"
  std::string_view key;    // "n_embd"
};

// A size that has a name, such as "bert-large". It has no weights.
struct NamedShape {
  std::string_view name;
  std::string_view config;  // the text of a config.json
};

struct Architecture {
  std::string_view model_type;  // Hugging Face's
  MakeModel make_classifier = nullptr;
  MakeModel make_language_model = nullptr;  // null: it is no decoder
  // The keys of config.json with a number, a flag or a text that it reads besides kSharedConfigKeys (models/config_keys.h).
  // --config_overrides may set them.
  std::span<const std::string_view> config_keys;
  std::span<const NamedShape> shapes = {};
  std::span<const ConfigKeyAlias> config_key_aliases = {};
};

}  // namespace shoehorn
