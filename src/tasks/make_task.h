// The tasks that there are, by Hugging Face's problem_type. A new one is a file of this folder and a row in
// make_task.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/task.h"

namespace shoehorn {

inline constexpr int64_t kMostLabels = int64_t{1} << 20;  // far above any model's head

// The task of labels.problem. UserError naming `source`, where they come from, for a number of labels that it cannot
// have.
std::shared_ptr<const Task> make_task(LabelMap labels, const std::string& source = "labels");

}  // namespace shoehorn
