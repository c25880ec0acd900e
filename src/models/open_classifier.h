// How a TextClassifier is made from a config.json or a directory.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "io/json_file.h"
#include "io/model_directory.h"
#include "model/model.h"

namespace shoehorn {

// `file` is named in errors. Errors: those of Config::from_json.
template <typename Classifier, typename Config>
Classifier classifier_of_json(const nlohmann::json& config, const std::string& file) {
  return Classifier(Config::from_json(config, file), format_json(config));
}

// The same for an architecture's MakeModel.
template <typename Classifier, typename Config>
std::unique_ptr<Model> make_classifier(const nlohmann::json& config, const std::string& file) {
  return std::make_unique<Classifier>(classifier_of_json<Classifier, Config>(config, file));
}

// Errors also of read_json.
template <typename Classifier, typename Config>
Classifier classifier_of_config(const std::filesystem::path& file) {
  return classifier_of_json<Classifier, Config>(read_json(file), file.string());
}

// Errors also of open_model_directory.
template <typename Classifier, typename Config>
Classifier classifier_of_directory(const std::filesystem::path& directory) {
  const ModelDirectory opened = open_model_directory(directory);
  auto model = classifier_of_config<Classifier, Config>(opened.config);
  model.set_weights_directory(opened.path);
  return model;
}

}  // namespace shoehorn
