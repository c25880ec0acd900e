// The flags of a language model's data: how its texts are cut into blocks (data/block_source.h), and how files are mixed
// (data/mixture.h).
#pragma once

#include <string_view>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/block_source.h"
#include "data/mixture.h"

namespace shoehorn {

// The --task of models that predict the next token, and of those that classify texts.
inline constexpr std::string_view kCausalLanguageModel = "causal-lm";
inline constexpr std::string_view kTextClassification = "text-classification";

// UserError: a flag of blocks with another task, or a value out of range or beside another that contradicts it.
// validate() calls it.
void validate_block_arguments(const TrainingArguments& args);

// --train_file_weights as numbers, none where files are not mixed. UserError naming the flag: no numbers above 0.
std::vector<double> train_file_weights_of(const TrainingArguments& args);
StoppingStrategy stopping_strategy_of(const TrainingArguments& args);

// Needs args.block_size, which train/language_data.h finds where it is not given.
BlockOptions block_options_of(const TrainingArguments& args);

}  // namespace shoehorn
