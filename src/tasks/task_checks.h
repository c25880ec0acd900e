// What tasks refuse: labels of another kind than theirs, options that their loss lacks.
#pragma once

#include "model/task.h"

namespace shoehorn {

// UserError naming the `which` data where their labels are of another kind or number than the task's. None at all is
// right.
void check_label_shape(const Task& task, const Dataset& dataset, const char* which);

// The same, and for each value that is not a finite number from `low` to `high`.
void check_label_values(const Task& task, const Dataset& dataset, const char* which, float low, float high);

// UserError where label smoothing is asked of a loss without it.
void expect_no_smoothing(const Task& task, const LossOptions& options);

}  // namespace shoehorn
