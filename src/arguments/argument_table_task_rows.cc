// Rows of the table: what is learned. A task's own flags stand here.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {

std::vector<ArgumentSpec> tasks() {
  return {
      {.name = "task",
       .group = kModel,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict | kReadByBenchStep,
       .field = &Args::task,
       .resume = kState,
       .help = "which head is trained; otherwise the one that the model's config.json names",
       .choices = {{"text-classification"},
                   {"causal-lm"},
                   {"text-generation"},
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
      {.name = "text_column_names",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::text_column_names,
       .resume = kTokens,
       .help = "one or two text columns",
       .aliases = {"text_column_name"}},
      {.name = "label_column_name",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::label_column_name,
       .resume = kTokens,
       .help = "the label's column; several, with commas between them, are a class or a value each"},
      {.name = "label_smoothing_factor",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::label_smoothing_factor,
       .resume = kNumerics,
       .help = "share of the target spread over all classes, where a text has one",
       .aliases = {"label_smoothing"}},
  };
}

}  // namespace shoehorn::argument_rows
