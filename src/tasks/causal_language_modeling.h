// Predicting the next token: cross-entropy of each token's logits with the token behind it in its document.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/task.h"

namespace shoehorn {

class CausalLanguageModeling : public Task {
 public:
  CausalLanguageModeling();

  LabelShape label_shape() const override;
  void check_labels(const Dataset& dataset, const char* which) const override;
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const override;
  // Its evaluation is the loss.
  std::optional<std::string> scored_output() const override { return std::nullopt; }
  std::unique_ptr<Score> make_score() const override;
  bool counts_right_targets() const override { return true; }
  // loss, as the Trainer has it, and perplexity, its exponential, and accuracy, the share of tokens that the largest
  // logit predicts, as run_clm; token_loss and token_perplexity of the mean
  // over all targets, which differs where batches have different numbers of them.
  Metrics loss_metrics(const EvaluationLoss& loss) const override;
  std::string peft_task_type() const override { return "CAUSAL_LM"; }
  // UserError: texts are not classified.
  PredictionForm prediction_form() const override;
  Prediction prediction(std::span<const float> outputs) const override;
};

}  // namespace shoehorn
