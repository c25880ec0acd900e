#include "tasks/task_checks.h"

#include <cmath>
#include <vector>

#include "base/error.h"

namespace shoehorn {

namespace {

std::string format_shape(LabelShape labels) {
  switch (labels.kind) {
    case LabelKind::kNone:
      return "none";
    case LabelKind::kClass:
      return "one class a sample";
    case LabelKind::kValue:
      return labels.width == 1 ? "one number a sample" : fmt::format("{} numbers a sample", labels.width);
    case LabelKind::kToken:
      return "a class for each token";
    case LabelKind::kDecoderToken:
      return "a class for each token of the decoder";
    case LabelKind::kNextToken:
      return "the next token";
  }
  return "another kind";
}

}  // namespace

void check_label_shape(const Task& task, const Dataset& dataset, const char* which) {
  if (dataset.label_kind() == LabelKind::kNone || dataset.label_shape() == task.label_shape()) return;
  throw user_error("[{} data] expected {} as label, for {}, got {}", which, format_shape(task.label_shape()),
                   problem_type_name(task.label_map().problem), format_shape(dataset.label_shape()));
}

void check_label_values(const Task& task, const Dataset& dataset, const char* which, float low, float high) {
  check_label_shape(task, dataset, which);
  if (dataset.label_kind() == LabelKind::kNone) return;
  std::vector<float> values(static_cast<size_t>(dataset.label_shape().width));
  for (int64_t i = 0; i < dataset.distinct_size(); ++i) {
    dataset.source().copy_value_labels(i, values);
    for (const float value : values) {
      if (std::isfinite(value) && value >= low && value <= high) continue;
      throw user_error("[{} data] expected finite numbers{} as labels, for {}, got {} in sample {}", which,
                       std::isfinite(low) ? fmt::format(" from {} to {}", low, high) : "",
                       problem_type_name(task.label_map().problem), value, i);
    }
  }
}

void expect_no_smoothing(const Task& task, const LossOptions& options) {
  if (options.label_smoothing == 0) return;
  throw user_error(
      "[label_smoothing_factor] expected 0 with {}, got {}; only the loss of one class a text has it",
      problem_type_name(task.label_map().problem), options.label_smoothing);
}

void expect_no_z_loss(const Task& task, const LossOptions& options) {
  if (options.z_loss == 0) return;
  throw user_error("[z_loss] expected 0 with {}, got {}; only the loss of one class a text or a token has it",
                   problem_type_name(task.label_map().problem), options.z_loss);
}

void expect_no_class_weights(const Task& task, const LossOptions& options) {
  if (!options.class_weights.id().valid()) return;
  const bool is_language = task.label_shape().kind == LabelKind::kNextToken;
  throw user_error("[class_weights] expected a task whose texts have classes, got {}",
                   is_language ? "a language model" : problem_type_name(task.label_map().problem));
}

}  // namespace shoehorn
