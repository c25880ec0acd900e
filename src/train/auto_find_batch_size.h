// --auto_find_batch_size: the first micro-batch that fits the memory budget, of those that the Trainer would
// try until one does not run out of memory (accelerate's find_executable_batch_size): the one asked for, then
// 0.9 times the last. Here each is planned, none is tried.
//
// As there, gradient_accumulation_steps stays what it was, so that the effective batch shrinks with the
// micro-batch.
#pragma once

#include <cstdint>
#include <string>

#include "arguments/training_arguments.h"

namespace shoehorn {

// per_device_train_batch_size, or that of the checkpoint which the run resumes from. UserError as
// find_checkpoint.
int64_t first_batch_size(const TrainingArguments& args);

// 0.9 times `size`, rounded down; 0 after 1.
int64_t next_batch_size(int64_t size);

// A line that says what was found, where it was asked for; else empty.
std::string format_found_batch_size(const TrainingArguments& asked, const TrainingArguments& planned);

}  // namespace shoehorn
