// What architectures have in common that sort a text into classes: the user's config.json, kept whole and brought up to
// date where it is written, and the names of the classes in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/model.h"

namespace shoehorn {

class TextClassifier : public Model {
 public:
  int64_t num_labels() const final { return num_labels_; }
  // id2label of the config, or LABEL_0, LABEL_1, …
  std::vector<std::string> labels() const final;
  // Writes id2label and label2id, and the number of labels with them. UserError of check_num_labels, or where
  // a label is not UTF-8.
  void set_labels(const std::vector<std::string>& labels) final;
  std::string config_json() const final;

 protected:
  // `config_json`: the text of the user's config.json, or empty. UserError of check_num_labels.
  TextClassifier(int64_t num_labels, std::string config_json);

  // The product_sizes() of a stack of transformer layers.
  static std::vector<NamedSize> encoder_sizes(int64_t hidden, int64_t feed_forward, int64_t heads,
                                              int64_t vocabulary);

  // Writes the architecture's own keys over the user's.
  virtual void write_keys(nlohmann::json& config) const = 0;

 private:
  int64_t num_labels_;
  std::string config_json_;
};

}  // namespace shoehorn
