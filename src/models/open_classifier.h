// How every class of TextClassifier is made of a user's files: its from_config and from_pretrained.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/model_directory.h"

namespace shoehorn {

// Errors of read_json and of Config::from_json.
template <typename Classifier, typename Config>
Classifier classifier_of_config(const std::filesystem::path& file) {
  const nlohmann::json config = read_json(file);
  return Classifier(Config::from_json(config, file.string()), format_json(config));
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
