// The data of a causal language model, from the arguments: files of texts become blocks whose labels are their next
// tokens, as run_clm makes them (data/texts.h, data/block_source.h).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/block_source.h"
#include "data/dataset.h"
#include "data/dataset_cache.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

// What a model takes.
struct LanguageModelLimits {
  int64_t max_positions = 0;
  int64_t max_position_embeddings = 0;  // where no --block_size is given; 0: max_positions
  int64_t vocab_size = 0;
};

// What texts are read with, besides the arguments.
struct LanguageReader {
  const Tokenizer& tokenizer;
  LanguageModelLimits model;
  std::vector<std::filesystem::path> tokenizer_files = {};  // of its directory, for --dataset_cache
  std::string preferred_text_column = {};                   // TextOptions::preferred_text_column
  // Told of the texts of a file that are tokenized; may be unset.
  std::function<void(int64_t texts)> on_progress = {};
  // DatasetCacheOptions::on_progress.
  std::function<void(CacheWork work, int64_t done, int64_t bytes)> on_cache_progress = {};
};

// Blocks of a file, or of a part of its texts.
struct LanguageBlocks {
  Dataset dataset;     // labels are LabelKind::kNextToken
  BlockCounts counts;  // of several files their sum
};

struct LanguageData {
  LanguageBlocks train;
  LanguageBlocks validation;  // without samples where there is nothing to evaluate on
  std::string summary;        // lines for people: texts, tokens, blocks, and what of them is not used
  std::string notices;        // lines for people: where data or settings are not used as given
};

// Sets args.block_size to what is used: as given, or else 1024 and at most max_position_embeddings, and at most what model
// and tokenizer take (a null tokenizer has no limit). Returns a notice where a size that was given is not used, or could be larger.
std::string fit_block_size(TrainingArguments& args, const LanguageModelLimits& model,
                           const Tokenizer* tokenizer);

// Loads --train_file, mixed by --train_file_weights where there are any, and, if the run evaluates, --validation_file.
// Without the latter the first 5, or --validation_split_percentage, percent of the training texts (of each file, if
// mixed) are not trained on, whether they are evaluated on or not. Calls fit_block_size. UserError: those of load_texts
// and cut_blocks; --add_eos with a tokenizer that names no end token; a token beyond the model's vocabulary; a file
// without a block; another number of weights than of names in --train_file.
LanguageData load_language_data(TrainingArguments& args, const LanguageReader& reader);

// The blocks of all texts of some files, to evaluate on: the first --max_eval_samples. Appends its lines to `summary` and
// `notices`. Needs fit_block_size first. UserError: as above.
LanguageBlocks load_evaluation_blocks(const TrainingArguments& args, const LanguageReader& reader,
                                      const DataFiles& files, std::string& summary, std::string& notices);

}  // namespace shoehorn
