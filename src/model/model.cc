#include "model/model.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shoehorn {

std::vector<std::string> Model::labels() const {
  return default_labels(num_labels());
}

void Model::set_labels(const std::vector<std::string>& labels) {
  if (labels == this->labels()) return;
  throw user_error("[labels] expected the model's {} classes, got {}; their names and number are fixed",
                   num_labels(), labels.size());
}

void Model::gradient_checkpointing_enable(int64_t every_n_layers) {
  if (every_n_layers < 1)
    throw user_error("[gradient_checkpointing_enable] expected 1 layer or more, got {}", every_n_layers);
  recompute_every_n_layers_ = every_n_layers;
}

std::vector<std::string> default_labels(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

}  // namespace shoehorn
