#include "tasks/regression.h"

#include <limits>

#include "model/model_builder.h"
#include "tasks/regression_errors.h"
#include "tasks/task_checks.h"

namespace shoehorn {

Regression::Regression(std::vector<std::string> values)
    : Task({.problem = ProblemType::kRegression, .names = std::move(values)}) {}

void Regression::check_labels(const Dataset& dataset, const char* which) const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  check_label_values(*this, dataset, which, -kInfinity, kInfinity);
}

Tensor Regression::loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const {
  expect_no_smoothing(*this, options);
  expect_no_z_loss(*this, options);
  expect_no_class_weights(*this, options);
  return builder.mean_squared_error(outputs.at("logits"));
}

std::unique_ptr<Score> Regression::make_score() const {
  return std::make_unique<RegressionErrors>(num_labels());
}

int64_t Regression::score_bytes(int64_t samples) const {
  return num_labels() == 1 ? samples * RegressionErrors::kBytesPerSample : 0;
}

Prediction Regression::prediction(std::span<const float> values) const {
  return {.scores = std::vector<double>(values.begin(), values.end())};
}

}  // namespace shoehorn
