// Common base of architectures that classify texts. It keeps the user's config.json with all keys, updates it
// when it is written, and makes the task from its labels.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/labels.h"
#include "model/model.h"

namespace shoehorn {

class TextClassifier : public Model {
 public:
  const Task& task() const final { return *task_; }
  // Also sets problem_type, id2label and label2id in the config. UserError as make_task, or if a label is not
  // UTF-8.
  void set_labels(const LabelMap& labels) final;
  std::string config_json() const final;
  std::string head_weight() const override { return "classifier.weight"; }

 protected:
  // `config_json` is the text of the user's config.json, or empty. Throws UserError as make_task does.
  TextClassifier(LabelMap labels, std::string config_json);

  // The product_sizes() of a stack of transformer layers.
  static std::vector<NamedSize> encoder_sizes(int64_t hidden, int64_t feed_forward, int64_t heads,
                                              int64_t vocabulary);

  // Writes the architecture's own keys over the user's.
  virtual void write_keys(nlohmann::json& config) const = 0;

 private:
  std::shared_ptr<const Task> task_;
  std::string config_json_;
};

}  // namespace shoehorn
