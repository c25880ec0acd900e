// What the registry has of an architecture.
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

// A size that has a name, such as "bert-large". It has no weights.
struct NamedShape {
  std::string_view name;
  std::string_view config;  // the text of a config.json
};

struct Architecture {
  std::string_view model_type;  // Hugging Face's
  MakeModel make_classifier = nullptr;
  MakeModel make_language_model = nullptr;  // null: it is no decoder
  // The values of config.json that it reads besides kSharedConfigKeys (models/config_keys.h): --config_overrides may set them.
  std::span<const std::string_view> config_keys;
  std::span<const NamedShape> shapes = {};
};

}  // namespace shoehorn
