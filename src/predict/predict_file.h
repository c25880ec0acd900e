// Predicts the rows of a file and writes them as they come: a file may be larger than memory.
//
// Some hundred rows at a time are read, tokenized, predicted in batches and written, in the order of the file. So memory
// does not grow with the rows. A part is a multiple of the batch, so that batches, and with them every bit of the
// outputs, are what they would be of all rows in memory.
//
// The columns of texts, ids and labels are those that the first part has: a column without a text there is taken for
// text only if it is named.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/text_columns.h"
#include "model/model.h"
#include "model/score.h"
#include "predict/prediction_output.h"
#include "predict/prediction_writer.h"
#include "predict/predictor.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

struct PredictFileProgress {
  int64_t rows = 0;    // written, or about to be
  double seconds = 0;  // since the first row was read, without the loading of the model
};

struct PredictFileOptions {
  PredictorOptions predictor = {};     // its caller_bytes are set here
  ColumnOptions trained_columns = {};  // the preferred ones: those that the training named
  // Called after each batch. May be unset.
  std::function<void(const PredictFileProgress& progress)> on_progress = {};
  int64_t rows_at_once = 512;  // rounded up to whole batches
};

struct PredictedFile {
  int64_t rows = 0;
  // predict_samples, predict_runtime, predict_samples_per_second and predict_steps_per_second, over reading, tokenizing,
  // predicting and writing; where the file has labels also predict_loss and what the task scores; and four
  // predict_memory_* keys, as training has them.
  Metrics metrics = {};
  ScoreDetails details = {};                    // of labelled files
  bool is_scored = false;                       // all rows had labels
  int64_t invalid_utf8 = 0;                     // ill-formed stretches of bytes that were read as U+FFFD
  std::vector<std::string> text_columns = {};   // one or two
  std::vector<std::string> label_columns = {};  // those that were read
  int64_t longest_rows = 0;                     // rows of max_seq_length tokens: longer texts are cut
  int64_t nonfinite_rows = 0;                   // rows with an output that is no finite number
  bool labels_are_ids = false;  // the labels are numbers of the model's classes, which have other names
};

// Predicts args.test_file with the columns, the fields and the batches that the arguments name, and writes the
// predictions; `output` is not finished. The model's task gives the fields (predict/prediction_writer.h). Of several ranks each reads
// the file and predicts its share of the batches; those that write nothing have no output.
//
// Errors: those of read_table, find_text_columns and Predictor; of ScoredLabels; UserError for an id column that is not
// there.
PredictedFile predict_file(const Model& model, const TrainingArguments& args, const Tokenizer& tokenizer,
                           PredictionFormat format, PredictionOutput* output,
                           const PredictFileOptions& options);

}  // namespace shoehorn
