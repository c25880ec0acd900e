// Training on random tokens, which commands that measure do in place of a user's data.
#pragma once

#include "arguments/argument_table.h"
#include "data/dataset.h"
#include "model/model.h"

namespace shoehorn {

// UserError for a --per_device_train_batch_size of so long sequences that cannot fit, whatever is done: the
// output of the embeddings alone, 16 bits a number, is beyond the budget. So nothing is made to see that.
void check_batch_size(const TrainingArguments& args, const Model& model, int64_t length);

// How long random samples are: --sequence_length where it is given; else its default, or what the model takes if that is
// less.
int64_t random_length(const ParsedArguments& parsed, const Model& model);

// Samples of random tokens, each of --sequence_length, for so many optimizer steps. UserError where the model
// has fewer positions, where the samples alone are beyond the budget, and of check_batch_size.
Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps);

// Steps that are measured are all alike. UserError where the batch is to grow.
void refuse_batch_size_ramp(const TrainingArguments& args);

// Of a run that is looked at and not kept: no log, report, evaluation or checkpoint. UserError as above.
TrainingArguments without_files(TrainingArguments args);

}  // namespace shoehorn
