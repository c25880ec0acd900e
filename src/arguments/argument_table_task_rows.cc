// Rows of the table: which task is trained, and what all tasks read. Those of one task have files of their own.
#include "arguments/argument_table_rows.h"
#include "arguments/block_arguments.h"

namespace shoehorn::argument_rows {

std::vector<ArgumentSpec> tasks() {
  return {
      {.name = "task",
       .group = kModel,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict | kReadByBenchStep,
       .field = &Args::task,
       .resume = kState,
       .help = "which head is trained; otherwise the one that the model's config.json names",
       .help_elsewhere = {{kReadByEval | kReadByPredict,
                           "which head the model has; otherwise the one that its config.json names"}},
       .choices = {{"text-classification"},
                   {kCausalLanguageModel},
                   {"text-generation", "a language model is trained by causal-lm", kRefused},
                   {"fill-mask", kNoMaskedModel},
                   {"token-classification", kNoHead},
                   {"question-answering", kNoHead},
                   {"summarization", kNoEncoderDecoder},
                   {"translation", kNoEncoderDecoder}}},
      {.name = "text_column_names",
       .group = kData,
       .is_common = true,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::text_column_names,
       .resume = kTokens,
       .help = "one or two text columns",
       .aliases = {"text_column_name"}},
      {.name = "id_column",
       .group = kData,
       .read_by = kReadByTrain | kReadByPlan | kReadByEval | kReadByPredict,
       .field = &Args::id_column,
       .resume = kTokens,
       .help = "the column that names the rows; it is no text",
       .help_elsewhere = {{kReadByPredict,
                           "the column that names the rows, which predictions have too; it is no text"}},
       .aliases = {"id_column_name"}},
      {.name = "z_loss",
       .group = kOptimizer,
       .read_by = kReadByTrain | kReadByBenchStep,
       .field = &Args::z_loss,
       .resume = kNumerics,
       .help =
           "this times the mean squared log-sum-exp of the targets' logits is added to the training loss (PaLM took "
           "1e-4), where a text or a token has one class; 0: off"},
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

}  // namespace shoehorn::argument_rows
