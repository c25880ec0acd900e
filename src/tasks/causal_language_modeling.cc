#include "tasks/causal_language_modeling.h"

#include <cmath>

#include "base/error.h"
#include "model/model_builder.h"
#include "tasks/ratio.h"
#include "tasks/task_checks.h"

namespace shoehorn {

namespace {

// There is nothing to score but the loss.
class TargetCount final : public Score {
 public:
  void add(std::span<const float> /*outputs*/, const MicroBatch& batch) override {
    for (const int32_t label : batch.ints(BatchColumn::kTokenLabels).first(batch.tokens_padded))
      total_ += label != kIgnoredLabel;
  }
  int64_t total() const override { return total_; }
  Metrics metrics() const override { return {}; }

 private:
  int64_t total_ = 0;
};

}  // namespace

CausalLanguageModeling::CausalLanguageModeling() : Task({}) {}

LabelShape CausalLanguageModeling::label_shape() const {
  return {LabelKind::kNextToken};
}

void CausalLanguageModeling::check_labels(const Dataset& dataset, const char* which) const {
  check_label_shape(*this, dataset, which);
}

Tensor CausalLanguageModeling::loss(ModelBuilder& builder, const Outputs& outputs,
                                    const LossOptions& options) const {
  expect_no_class_weights(*this, options);
  return builder.cross_entropy(outputs.at("logits"), options.label_smoothing, {}, options.z_loss);
}

std::unique_ptr<Score> CausalLanguageModeling::make_score() const {
  return std::make_unique<TargetCount>();
}

Metrics CausalLanguageModeling::loss_metrics(const EvaluationLoss& loss) const {
  return {{"loss", loss.mean_of_batches},
          {"accuracy", ratio(loss.right, loss.targets)},
          {"perplexity", std::exp(loss.mean_of_batches)},
          {"token_loss", loss.mean},
          {"token_perplexity", std::exp(loss.mean)}};
}

PredictionForm CausalLanguageModeling::prediction_form() const {
  throw user_error("[predict] expected a model that classifies texts, got a language model");
}

Prediction CausalLanguageModeling::prediction(std::span<const float> /*outputs*/) const {
  throw user_error("[predict] expected a model that classifies texts, got a language model");
}

}  // namespace shoehorn
