// Turns text files into data sets with the model's own tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/dataset_cache.h"
#include "data/load_dataset.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

// A function that tokenizes with `threads` threads and truncates to max_length tokens. The tokenizer must
// outlive it.
TokenizeFunction tokenize_with(const Tokenizer& tokenizer, int64_t max_length, int threads);

// load_dataset (data/load_dataset.h) with a tokenizer, on all cores. max_length is in tokens and includes
// special tokens; a model takes at most its max_positions().
LoadedDataset load_dataset(const DataFiles& files, const Tokenizer& tokenizer, int64_t max_length,
                           const LoadOptions& options = {});

// The same from the cache (data/dataset_cache.h) where it has a directory; what it says of the tokenizer counts.
LoadedDataset load_dataset(const DataFiles& files, const Tokenizer& tokenizer, int64_t max_length,
                           const LoadOptions& options, const DatasetCacheOptions& cache);

// Where tokenized texts are kept: the directory that the arguments name, or of several ranks, which would each hold them all,
// "data_sets" in the user's cache, if that can be written. Empty: in memory.
std::filesystem::path dataset_cache_of(const TrainingArguments& args);

// That cache for a tokenizer of these files, whose content it reads, and which cuts texts to `max_length` tokens. Standard
// input goes to none that is not named.
DatasetCacheOptions cache_options_of(const TrainingArguments& args, const DataFiles& texts,
                                     const std::vector<std::filesystem::path>& tokenizer_files,
                                     int64_t max_length);

// Options of load_dataset from the arguments: the columns' names, and the memory.
LoadOptions load_options_of(const TrainingArguments& args);

// How many of `samples` from the start of the training file are not trained on, but evaluated on:
// --validation_split_percentage percent, or `standard_percentage` where it is not given; none if there is a
// --validation_file. Rounded as `datasets` rounds run_clm's split "train[:5%]": to the nearest, from the middle to the
// even one.
int64_t samples_to_evaluate_on(const TrainingArguments& args, int64_t samples, int64_t standard_percentage);

// The samples [begin, end); without samples if that is empty.
Dataset part_of(const Dataset& dataset, int64_t begin, int64_t end);

}  // namespace shoehorn
