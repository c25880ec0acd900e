// Makes tasks by Hugging Face's problem_type. A new task is a file in this folder and a row in make_task.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/task.h"

namespace shoehorn {

inline constexpr int64_t kMaxLabels = int64_t{1} << 20;  // far above any model's head

// The task for labels.problem. UserError naming `source`, the origin of the labels, if it cannot have so
// many.
std::shared_ptr<const Task> make_task(LabelMap labels, const std::string& source = "labels");

}  // namespace shoehorn
