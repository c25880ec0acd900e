// Rows of the table: those of task causal-lm.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {

std::vector<ArgumentSpec> causal_language_modeling() {
  return {
      {.name = "block_size",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByBench,
       .field = &Args::block_size,
       .resume = kTokens,
       .help =
           "of task causal-lm: tokens of a block, the samples that texts are cut into; at most, and unless given "
           "1024 or, if fewer, what model and tokenizer take",
       .help_elsewhere = {{kReadByBench, "of a language model: tokens of a random sample"}}},
      {.name = "packing",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::packing,
       .resume = kTokens,
       .help =
           "of task causal-lm: concatenate cuts blocks from all texts end to end (run_clm does); with documents "
           "texts attend to nothing of each other, have positions from 0, and share a block if whole",
       .choices = {{"concatenate"}, {"documents"}}},
      {.name = "block_remainder",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::block_remainder,
       .resume = kTokens,
       .help =
           "of task causal-lm: what is left at the end is a shorter block (keep) or not used (drop); run_clm does "
           "not use what is left of each 1,000 texts, as that script",
       .choices = {{"keep"}, {"drop"}, {"run_clm"}}},
      {.name = "add_eos",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::add_eos,
       .resume = kTokens,
       .help = "of task causal-lm: the tokenizer's end token behind each text, unless it is there"},
      {.name = "keep_linebreaks",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::keep_linebreaks,
       .resume = kTokens,
       .help = "of task causal-lm: a line of a txt file keeps its end"},
      {.name = "train_file_weights",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan,
       .field = &Args::train_file_weights,
       .resume = kSamples,
       .help =
           "of task causal-lm: a number for each name in train_file, in whose ratio samples of these files are mixed; "
           "without it files are read one behind the other",
       .aliases = {"interleave_probs"}},
      {.name = "stopping_strategy",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan,
       .field = &Args::stopping_strategy,
       .resume = kSamples,
       .help =
           "of train_file_weights: an epoch ends when the first file is used up, or when all have been and the "
           "smaller ones have come several times",
       .choices = {{"first_exhausted"}, {"all_exhausted"}}},
  };
}

}  // namespace shoehorn::argument_rows
