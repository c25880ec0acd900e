#include "models/text_classifier.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "io/json_file.h"
#include "io/model_directory.h"
#include "models/config_keys.h"

namespace shoehorn {

namespace {

using nlohmann::json;

json parsed(const std::string& config_json) {
  return config_json.empty() ? json::object() : parse_json(config_json, kConfigFileName);
}

}  // namespace

TextClassifier::TextClassifier(int64_t num_labels, std::string config_json)
    : num_labels_(num_labels), config_json_(std::move(config_json)) {
  check_num_labels(num_labels_, "num_labels");
}

std::vector<std::string> TextClassifier::labels() const {
  const auto named = read_labels(parsed(config_json_), std::string(kConfigFileName));
  return named && std::ssize(*named) == num_labels_ ? *named : default_labels(num_labels_);
}

void TextClassifier::set_labels(const std::vector<std::string>& labels) {
  check_num_labels(std::ssize(labels), "labels");
  json config = parsed(config_json_);
  write_labels(config, labels);
  config_json_ = format_json(config);
  num_labels_ = std::ssize(labels);
}

std::vector<NamedSize> TextClassifier::encoder_sizes(int64_t hidden, int64_t feed_forward, int64_t heads,
                                                     int64_t vocabulary) {
  return {{"hidden", hidden},
          {"feed-forward", feed_forward},
          {"head", hidden / heads},
          {"vocabulary (looked up, not multiplied)", vocabulary}};
}

std::string TextClassifier::config_json() const {
  json config = parsed(config_json_);
  write_keys(config);
  config["problem_type"] = "single_label_classification";
  return config.dump(2) + "\n";
}

}  // namespace shoehorn
