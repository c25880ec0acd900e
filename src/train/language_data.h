// The data of a causal language model, from the arguments: files of texts become blocks whose labels are their next
// tokens, as run_clm makes them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/block_source.h"
#include "data/dataset.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

// What a model takes.
struct LanguageModelLimits {
  int64_t max_positions = 0;
  int64_t vocab_size = 0;
};

// Blocks of one file, or of a part of it.
struct LanguageBlocks {
  Dataset dataset;  // labels are LabelKind::kNextToken
  BlockCounts counts;
};

struct LanguageData {
  LanguageBlocks train;
  LanguageBlocks validation;  // without samples where there is nothing to evaluate on
  std::string summary;        // lines for people: files, texts, tokens, blocks, and what of them is not used
  std::string notices;        // lines for people: where data or settings are not used as given
};

// Sets args.block_size, which is at most what model and tokenizer take: as given, or else min(1024, these). Returns a
// notice where a size that was given is not used. A null tokenizer has no limit.
std::string fit_block_size(TrainingArguments& args, const LanguageModelLimits& model, const Tokenizer* tokenizer);

// Loads --train_file and --validation_file; without the latter the first --validation_split_percentage percent of the
// training texts are to evaluate on. Calls fit_block_size. `tokenizer_files`: the files of the tokenizer's directory, for
// --dataset_cache. UserError: those of load_texts and cut_blocks; --add_eos with a tokenizer without an end token; a
// token beyond the model's vocabulary; files without a single block.
LanguageData load_language_data(TrainingArguments& args, const Tokenizer& tokenizer, const LanguageModelLimits& model,
                                const std::vector<std::filesystem::path>& tokenizer_files,
                                const std::function<void(int64_t texts)>& on_progress = {});

// Loads one file to evaluate on (--validation_file of eval): all of its texts, the first --max_eval_samples blocks.
LanguageBlocks load_language_file(const TrainingArguments& args, const Tokenizer& tokenizer,
                                  const LanguageModelLimits& model, const std::string& file,
                                  const std::vector<std::filesystem::path>& tokenizer_files, std::string& lines);

}  // namespace shoehorn
