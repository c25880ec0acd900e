// Rows of the table: what is learned. A task's own flags stand here.
#include "arguments/argument_table_rows.h"
#include "arguments/block_arguments.h"

namespace shoehorn::argument_rows {

namespace {

// Of causal-lm.
std::vector<ArgumentSpec> blocks() {
  return {
      {.name = "block_size",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::block_size,
       .resume = kTokens,
       .help =
           "of task causal-lm: tokens of a block, the samples that texts are cut into; at most, and unless given "
           "1024 or, if fewer, what model and tokenizer take"},
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
      {.name = "validation_split_percentage",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan,
       .field = &Args::validation_split_percentage,
       .resume = kTokens,
       .help =
           "without validation_file the first N percent of the training texts are to evaluate on, and are not "
           "trained on; 5 for task causal-lm, else none"},
  };
}

}  // namespace

std::vector<ArgumentSpec> tasks() {
  std::vector<ArgumentSpec> rows = {
      {.name = "task",
       .group = kModel,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict | kReadByBenchStep,
       .field = &Args::task,
       .resume = kState,
       .help = "which head is trained; otherwise the one that the model's config.json names",
       .choices = {{"text-classification"},
                   {kCausalLanguageModel},
                   {"text-generation", "a language model is trained by causal-lm", kRefused},
                   {"fill-mask", kNoHead},
                   {"token-classification", kNoHead},
                   {"question-answering", kNoHead},
                   {"summarization", kNoHead},
                   {"translation", kNoHead}}},
      {.name = "task_name",
       .group = kModel,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::task_name,
       .resume = kTokens,
       .help = "GLUE task, which names the text columns; of stsb the labels are a regression's",
       .choices = {{"cola"}, {"mnli"}, {"mrpc"}, {"qnli"}, {"qqp"}, {"rte"}, {"sst2"}, {"wnli"}, {"stsb"}}},
      {.name = "problem_type",
       .group = kModel,
       .read_by = kReadByTrain | kReadByPlan,
       .field = &Args::problem_type,
       .resume = kTokens,
       .help = "what the labels are to be; otherwise the training file says, and then the model",
       .choices = {{"single_label_classification"}, {"multi_label_classification"}, {"regression"}}},
      {.name = "ignore_mismatched_sizes",
       .group = kModel,
       .read_by = kReadByTrain,
       .field = &Args::ignore_mismatched_sizes,
       .resume = kFree,
       .help =
           "where the files have the head for another number of labels, a new one is trained in its place"},
      {.name = "text_column_names",
       .group = kData,
       .is_common = true,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::text_column_names,
       .resume = kTokens,
       .help = "one or two text columns",
       .aliases = {"text_column_name"}},
      {.name = "label_column_name",
       .group = kData,
       .is_common = true,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::label_column_name,
       .resume = kTokens,
       .help = "the label's column; several, with commas between them, are a class or a value each"},
      {.name = "id_column",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::id_column,
       .resume = kTokens,
       .help = "the column that names the rows, for predictions; it is no text",
       .aliases = {"id_column_name"}},
      {.name = "label_smoothing_factor",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::label_smoothing_factor,
       .resume = kNumerics,
       .help = "share of the target spread over all classes, where a text has one",
       .aliases = {"label_smoothing"}},
      {.name = "class_weights",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::class_weights,
       .resume = kNumerics,
       .help =
           "how much each class counts in the loss: balanced, so that all classes of the training file count alike; "
           "a number for each class, in their order; or name=number for some, and 1 for the others. Of a text with "
           "several classes, how much those that it has count"},
  };
  for (ArgumentSpec& row : blocks()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace shoehorn::argument_rows
