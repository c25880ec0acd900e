// Finds the micro-batch of a run with --auto_find_batch_size. The candidates are those of accelerate's
// find_executable_batch_size, which tries each until one does not run out of memory: the requested size, then 0.9 times the
// previous one. Here each is planned, as `fit` plans its candidates, and none is tried.
//
// As in the Trainer, gradient_accumulation_steps does not change, so the effective batch shrinks too, unless
// effective_batch_size says that it stays: then candidates that do not divide it are left out.
#pragma once

#include <cstdint>

#include "fit/plan_search.h"

namespace shoehorn {

// 0.9 times `size`, rounded down; 0 after 1.
int64_t next_batch_size(int64_t size);

struct BatchSizeMemory {
  int64_t budget_bytes = 0;  // for the whole process
  int64_t caller_bytes = 0;  // that it will hold besides what it holds now
};

// Of the sizes below that of `args` the first whose plan fits; 1 where none does. To be called where no session is held: what the
// process holds then is less than with the session, and with the code, of what is found, so that this may turn out not to fit.
int64_t find_smaller_batch_size(const Model& model, const SessionOfArguments& options_of,
                                const TrainingArguments& args, const BatchSizeMemory& memory);

}  // namespace shoehorn
