// Rows of the table: those of task text-classification.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {

std::vector<ArgumentSpec> text_classification() {
  return {
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
      {.name = "label_column_name",
       .group = kData,
       .is_common = true,
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
      {.name = "class_weights",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval,
       .field = &Args::class_weights,
       .resume = kNumerics,
       .help =
           "how much each class counts in the loss: balanced, so that all classes of the training file count alike; "
           "a number for each class, in their order; or name=number for some, and 1 for the others. Of a text with "
           "several classes, how much those that it has count",
       .help_elsewhere =
           {{kReadByEval,
             "how much each class counts in the loss: a number for each class, in their order; or "
             "name=number for some, and 1 for the others; as training said where it printed weights. Of a "
             "text with several classes, how much those that it has count"}}},
  };
}

}  // namespace shoehorn::argument_rows
