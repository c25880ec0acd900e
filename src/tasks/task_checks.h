// Checks that several tasks share: the kind of labels, and options that a loss does not support.
#pragma once

#include "model/task.h"

namespace shoehorn {

// UserError naming the `which` data if its labels are of another kind or width than the task's. Unlabelled
// data passes.
void check_label_shape(const Task& task, const Dataset& dataset, const char* which);

// The same; also UserError if a value is not a number in [low, high].
void check_label_values(const Task& task, const Dataset& dataset, const char* which, float low, float high);

// UserError if label smoothing is set; for losses without it.
void expect_no_smoothing(const Task& task, const LossOptions& options);

// UserError if there is a z-loss; for losses that are no cross-entropy of one class.
void expect_no_z_loss(const Task& task, const LossOptions& options);

// UserError if classes have weights; for losses without classes of texts.
void expect_no_class_weights(const Task& task, const LossOptions& options);

}  // namespace shoehorn
