// Where --auto_find_batch_size (fit/batch_size_search.h) begins, and what is said of what it found. Of several ranks, which have
// one size, that is the first that fits them all, each its own budget.
#pragma once

#include <cstdint>
#include <string>

#include "arguments/training_arguments.h"

namespace shoehorn {

// per_device_train_batch_size, or that of the checkpoint that the run resumes from. UserError as in
// find_checkpoint.
int64_t first_batch_size(const TrainingArguments& args);

// A line that reports the size that was found; empty without auto_find_batch_size.
std::string format_found_batch_size(const TrainingArguments& asked, const TrainingArguments& planned);

}  // namespace shoehorn
