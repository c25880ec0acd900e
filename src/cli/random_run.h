// Training on random tokens, which commands that measure do in place of a user's data.
#pragma once

#include "data/dataset.h"
#include "model/model_builder.h"
#include "train/training_arguments.h"

namespace shoehorn {

// Samples of random tokens, each of --sequence_length, for so many optimizer steps. UserError where the model
// has fewer positions.
Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps);

// Steps that are measured are all alike. UserError where the batch is to grow.
void refuse_batch_size_ramp(const TrainingArguments& args);

// Of a run that is looked at and not kept: no log, report, evaluation or checkpoint. UserError as above.
TrainingArguments without_files(TrainingArguments args);

}  // namespace shoehorn
