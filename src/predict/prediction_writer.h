// Predictions as text: one row of a file for each row of the input.
//
//   JSON lines  {"index": 0, "label": "up", "scores": {"down": 0.25, "up": 0.75}}
//   csv         index,label,score_down,score_up   (RFC 4180: a field with a comma, a quote or a line end is in double
//               0,up,0.25,0.75                     quotes, and quotes in it are doubled; lines end with LF)
//   tsv         the same columns with tabs between them. Nothing is quoted: a tab, a line feed, a carriage return and a
//               backslash in a field are written as \t, \n, \r and \\.
//
// The fields are, in this order: the row's id (its index from 0, or a column of the input under its own name); the texts,
// if asked for, under the names of their columns; then, by the task's form of prediction (model/prediction.h),
//
//   kClass    label           scores of the classes by name; csv: score_NAME
//   kClasses  labels (a list) the same; csv: the list as JSON
//   kValues   value, or of several outputs values by name; csv: value_NAME
//
// With logits, these follow as logits or logit_NAME. With the K best classes only, JSON lines have them best first, and
// csv has class_1, score_1, class_2, score_2, … in place of a column a class. Two classes of one name are told apart by
// their numbers: "other (2)". Numbers have the fewest digits that read back the same; those that are none are NaN and
// Infinity, as in Python's json.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/table.h"
#include "model/task.h"
#include "predict/prediction_format.h"

namespace shoehorn {

struct PredictionFields {
  std::string id_column = {};                  // empty: the row's index, as "index"
  std::vector<std::string> text_columns = {};  // whose texts are copied
  int64_t top_k = 0;                           // above 0: only so many classes, the best first
  bool logits = false;                         // not of kValues, whose values they are
};

// A row of the input and what the model made of it. The views are valid during the call that takes it.
struct PredictedRow {
  int64_t index = 0;
  // The cell of the id column. In JSON a kind other than kString is written as it stands, but for null.
  std::string_view id = {};
  CellKind id_kind = CellKind::kString;
  std::span<const std::string_view> texts = {};  // one for each of text_columns
  std::span<const float> outputs = {};           // of the task, num_labels() of them
};

// Immutable.
class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;

  // Appends what stands before the first row.
  virtual void append_header(std::string& text) const = 0;
  virtual void append_row(const PredictedRow& row, std::string& text) const = 0;
};

// `task` must outlive the writer. UserError: two fields of one name (a text column called "label"), or top_k with a task
// that has no classes.
std::unique_ptr<PredictionWriter> make_prediction_writer(PredictionFormat format, const Task& task,
                                                         PredictionFields fields);

}  // namespace shoehorn
