#include "models/text_classifier.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "io/json_file.h"
#include "io/model_directory.h"
#include "models/config_keys.h"
#include "tasks/make_task.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// Whether the labels are what a reader takes the config to say: their number alone, which two have even without.
bool has_default_names(const json& config, const LabelMap& labels) {
  if (config.contains("id2label")) return false;
  const json count = config.value("num_labels", json(2));
  return (count.is_null() ? labels.num_labels() == 2 : count == labels.num_labels()) &&
         labels.names == default_labels(labels.num_labels());
}

json parsed(const std::string& config_json) {
  return config_json.empty() ? json::object() : parse_json(config_json, kConfigFileName);
}

}  // namespace

TextClassifier::TextClassifier(LabelMap labels, std::string config_json)
    : task_(make_task(std::move(labels))), config_json_(std::move(config_json)) {}

void TextClassifier::set_labels(const LabelMap& labels) {
  std::shared_ptr<const Task> task = make_task(labels);
  json config = parsed(config_json_);
  write_labels(config, labels);
  config_json_ = format_json(config);
  task_ = std::move(task);
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
  const LabelMap& labels = task_->label_map();
  if (!has_default_names(config, labels)) write_labels(config, labels);
  config["problem_type"] = problem_type_name(labels.problem);
  return config.dump(2) + "\n";
}

}  // namespace shoehorn
