#include "generate/next_token_model.h"

#include "base/error.h"
#include "model/model_builder.h"

namespace shoehorn {

namespace {

// Nothing is trained or scored: the loss is that of samples without labels.
class NextToken final : public Task {
 public:
  NextToken() : Task({}) {}
  LabelShape label_shape() const override { return {LabelKind::kClass}; }
  void check_labels(const Dataset& /*dataset*/, const char* /*which*/) const override {}
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& /*options*/) const override {
    return builder.cross_entropy(outputs.at("logits"), 0);
  }
  std::unique_ptr<Score> make_score() const override { return nullptr; }
  PredictionForm prediction_form() const override { return PredictionForm::kValues; }
  Prediction prediction(std::span<const float> /*outputs*/) const override { return {}; }
};

}  // namespace

NextTokenModel::NextTokenModel(const Model& model) : model_(model), task_(std::make_unique<NextToken>()) {
  if (model.task().label_shape().kind != LabelKind::kNextToken)
    throw user_error("[generate] expected a language model, got one that classifies texts");
}

Outputs NextTokenModel::forward(ModelBuilder& builder) const {
  return builder.last_tokens(model_.forward(builder).at("logits"));
}

}  // namespace shoehorn
