// --auto_find_batch_size: finds the first micro-batch size that fits the memory budget. The candidates are
// those of accelerate's find_executable_batch_size: the requested size, then 0.9 times the previous one. The
// Trainer tries each until one does not run out of memory; here each is planned and none is tried. Of several ranks, which
// have one size, it is the first that fits them all, each its own budget.
//
// As in the Trainer, gradient_accumulation_steps does not change, so the effective batch shrinks too, unless
// effective_batch_size says that it stays: then candidates that do not divide it are left out.
#pragma once

#include <cstdint>
#include <string>

#include "arguments/training_arguments.h"

namespace shoehorn {

// per_device_train_batch_size, or that of the checkpoint that the run resumes from. UserError as in
// find_checkpoint.
int64_t first_batch_size(const TrainingArguments& args);

// 0.9 times `size`, rounded down; 0 after 1.
int64_t next_batch_size(int64_t size);

// A line that reports the size that was found; empty without auto_find_batch_size.
std::string format_found_batch_size(const TrainingArguments& asked, const TrainingArguments& planned);

}  // namespace shoehorn
