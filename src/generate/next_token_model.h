// A language model whose evaluation gives the logits of each sequence's last token, and of no other.
#pragma once

#include <memory>

#include "model/model.h"
#include "model/task.h"

namespace shoehorn {

class NextTokenModel final : public Model {
 public:
  // `model` must outlive this object. UserError if it is no language model.
  explicit NextTokenModel(const Model& model);

  Outputs forward(ModelBuilder& builder) const override;
  const Task& task() const override { return *task_; }
  int64_t max_positions() const override { return model_.max_positions(); }
  int64_t max_position_embeddings() const override { return model_.max_position_embeddings(); }
  int64_t vocab_size() const override { return model_.vocab_size(); }
  std::string base_model_prefix() const override { return model_.base_model_prefix(); }
  std::string head_weight() const override { return model_.head_weight(); }
  std::map<std::string, std::string> other_names() const override { return model_.other_names(); }
  std::vector<std::string> lora_targets() const override { return model_.lora_targets(); }
  std::vector<std::string> lora_modules_to_save() const override { return model_.lora_modules_to_save(); }

 private:
  const Model& model_;
  std::unique_ptr<const Task> task_;
};

}  // namespace shoehorn
