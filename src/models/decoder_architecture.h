// The registry's entry of a decoder: both heads on the stack that its config describes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "models/architecture.h"
#include "models/decoder_model.h"

namespace shoehorn {

// `read` is a function of (json, file) that gives a config; a make_decoder of that config makes the stack.
template <auto read>
constexpr Architecture decoder_architecture(std::string_view model_type,
                                            std::span<const std::string_view> config_keys,
                                            std::span<const NamedShape> shapes = {},
                                            std::span<const ConfigKeyAlias> aliases = {}) {
  const MakeModel make_classifier = [](const nlohmann::json& config, const std::string& file) {
    return classifier_of_decoder(make_decoder(read(config, file)), config, file);
  };
  const MakeModel make_language_model = [](const nlohmann::json& config, const std::string& file) {
    return language_model_of_decoder(make_decoder(read(config, file)), config);
  };
  return {model_type, make_classifier, make_language_model, config_keys, shapes, aliases};
}

}  // namespace shoehorn
