#include "tasks/make_task.h"

#include "base/error.h"
#include "tasks/multi_label_classification.h"
#include "tasks/regression.h"
#include "tasks/single_label_classification.h"

namespace shoehorn {

namespace {

struct TaskMaker {
  ProblemType problem;
  int64_t fewest_labels;
  std::shared_ptr<const Task> (*make)(LabelMap labels);
};

template <typename Kind>
std::shared_ptr<const Task> make(LabelMap labels) {
  return std::make_shared<Kind>(std::move(labels.names));
}

constexpr TaskMaker kTasks[] = {
    {ProblemType::kSingleLabel, 2, make<SingleLabelClassification>},
    {ProblemType::kMultiLabel, 1, make<MultiLabelClassification>},
    {ProblemType::kRegression, 1, make<Regression>},
};

}  // namespace

std::shared_ptr<const Task> make_task(LabelMap labels, const std::string& source) {
  for (const TaskMaker& task : kTasks) {
    if (task.problem != labels.problem) continue;
    if (labels.num_labels() < task.fewest_labels || labels.num_labels() > kMaxLabels) {
      throw user_error(
          "[{}] expected from {} to {} labels ('num_labels', the names in 'id2label') for {}, got {}", source,
          task.fewest_labels, kMaxLabels, problem_type_name(labels.problem), labels.num_labels());
    }
    return task.make(std::move(labels));
  }
  CHECK(false, "a problem without a task");
}

}  // namespace shoehorn
