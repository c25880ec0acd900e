// Training on random tokens: measuring commands use them instead of a user's data.
#pragma once

#include "arguments/argument_table.h"
#include "data/dataset.h"
#include "model/model.h"

namespace shoehorn {

// UserError if a batch of this size and length cannot fit whatever is done: if the output of the embeddings
// alone, in 16 bits, exceeds the budget, with layer_major that of every accumulated batch. It avoids building a step only to find that out.
void check_batch_size(const TrainingArguments& args, const Model& model, int64_t length);

// The length of the random samples: of a language model --block_size if given; --sequence_length if given; else its default, or the
// model's maximum if that is less. UserError for --block_size of a classifier.
int64_t random_length(const ParsedArguments& parsed, const Model& model);

// Random samples of --sequence_length tokens for `steps` optimizer steps. UserError if the model has fewer
// positions or the samples alone exceed the budget; also that of check_batch_size.
Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps);

// What an optimizer step on them takes: "2 x 4 sequences of 128 tokens (1,024 tokens a step)".
std::string describe_random_step(const TrainingArguments& args);

// UserError if the batch size changes over training: measured steps must be equal.
void refuse_batch_size_ramp(const TrainingArguments& args);

// The arguments of a run whose output is not kept: no log, report, evaluation or checkpoint. UserError as
// above.
TrainingArguments without_files(TrainingArguments args);

}  // namespace shoehorn
