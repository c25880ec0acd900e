#include "train/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "data/class_weights.h"
#include "train/data_description.h"

namespace shoehorn {

namespace {

std::string shown_names(std::span<const std::string> names) {
  constexpr size_t kMost = 20;
  std::vector<std::string> shown(names.begin(), names.begin() + std::min(names.size(), kMost));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? ", …" : "");
}

bool has_classes(const Task& task) {
  const LabelKind kind = task.label_shape().kind;
  return kind == LabelKind::kClass ||
         (kind == LabelKind::kValue && task.label_map().problem == ProblemType::kMultiLabel);
}

float read_weight(const std::string& text) {
  float weight = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(weight) ||
      weight < 0) {
    throw user_error(
        "[class_weights] expected balanced, numbers of 0 or more, or name=number for some classes, got '{}'",
        text);
  }
  return weight;
}

// name=number; a name may have a '=' too.
void set_named(const std::string& text, std::span<const std::string> names, std::vector<float>& weights) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    throw user_error(
        "[class_weights] expected a name with each number, as in {}=2, or with none, got '{}' among them",
        names[0], text);
  }
  const std::string name = text.substr(0, equals);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const std::string nearest = nearest_name(name, {names.begin(), names.end()});
    throw user_error("[class_weights] expected classes of {}, got '{}'{}", shown_names(names), name,
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  weights[static_cast<size_t>(found - names.begin())] = read_weight(text.substr(equals + 1));
}

}  // namespace

std::vector<float> class_weights_of(const TrainingArguments& args, const Task& task, const Dataset* train) {
  const std::vector<std::string>& given = args.class_weights;
  if (given.empty()) return {};
  if (!has_classes(task)) {
    throw user_error("[class_weights] expected a task whose texts have classes, got {}",
                     task.label_shape().kind == LabelKind::kNextToken
                         ? "a language model"
                         : problem_type_name(task.label_map().problem));
  }
  const std::vector<std::string>& names = task.label_map().names;
  if (given == std::vector<std::string>{"balanced"}) {
    if (train == nullptr || train->size() == 0 || train->label_kind() == LabelKind::kNone) {
      throw user_error(
          "[class_weights] expected numbers where no training data can be counted, got balanced; training prints "
          "the numbers that it counted");
    }
    return balanced_class_weights(*train, task.num_labels());
  }
  std::vector<float> weights(names.size(), 1.0F);
  const bool are_named = std::any_of(given.begin(), given.end(), [](const std::string& text) {
    return text.find('=') != std::string::npos;
  });
  if (are_named) {
    for (const std::string& text : given) set_named(text, names, weights);
  } else {
    for (size_t i = 0; i < given.size(); ++i) {
      const float weight = read_weight(given[i]);
      if (i < weights.size()) weights[i] = weight;
    }
    if (given.size() != weights.size()) {
      throw user_error("[class_weights] expected {} numbers, one for each class ({}), got {}", weights.size(),
                       shown_names(names), given.size());
    }
  }
  if (std::all_of(weights.begin(), weights.end(), [](float weight) { return weight == 0; }))
    throw user_error("[class_weights] expected a weight above 0, got 0 for every class");
  return weights;
}

std::string format_class_weights(std::span<const float> weights, std::span<const std::string> names) {
  if (weights.empty()) return {};
  constexpr size_t kMost = 20;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(weights.size(), kMost); ++i)
    shown.push_back(fmt::format("{} {:.6g}", shown_class(names[i]), weights[i]));
  return fmt::format("Class weights: {}{}\n", fmt::join(shown, ", "), weights.size() > kMost ? ", …" : "");
}

}  // namespace shoehorn
