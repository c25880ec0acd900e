#include "model/model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/task.h"

namespace shoehorn {

int64_t Model::num_labels() const {
  return task().num_labels();
}

const std::vector<std::string>& Model::labels() const {
  return task().label_map().names;
}

void Model::set_labels(const LabelMap& labels) {
  const LabelMap& own = task().label_map();
  if (labels.problem == own.problem && labels.names == own.names) return;
  throw user_error("[labels] expected the model's {} outputs of {}, got {} of {}; the model's task is fixed",
                   num_labels(), problem_type_name(own.problem), labels.num_labels(),
                   problem_type_name(labels.problem));
}

void Model::gradient_checkpointing_enable(int64_t every_n_layers) {
  if (every_n_layers < 1)
    throw user_error("[gradient_checkpointing_enable] expected 1 layer or more, got {}", every_n_layers);
  recompute_every_n_layers_ = every_n_layers;
}

}  // namespace shoehorn
