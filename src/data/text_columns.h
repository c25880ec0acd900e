// Which columns of a table are text and which is the label, and what the labels mean: the rules of
// transformers' run_glue for files of one's own, with two differences where that script would fail: the
// published MRPC files are known by their header, and columns of numbers only (ids, an index) are not taken
// for text.
//
//   label   the column `label`, else `labels`, else MRPC's `Quality`
//   text    sentence1 and sentence2 if both are there, else MRPC's `#1 String` and `#2 String`, else the
//           first two other columns, or the only one
//   labels  all numbers, at least one of them no integer: regression. All integers: classes in numeric order.
//           Else: classes in the order of their bytes. A class is a distinct label of the training set.
//
// Functions are thread-safe and pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/table.h"

namespace shoehorn {

struct ColumnOptions {
  std::vector<std::string> text_column_names = {};  // none: by the rules above; else one or two
  std::string label_column_name = {};               // empty: by the rules above
};

// Indices of columns; -1 where there is none.
struct TextColumns {
  int64_t text = -1;
  int64_t pair = -1;
  int64_t label = -1;
};

// UserError, which lists the columns there are: a named column is absent, no column is left for text, more
// than two text columns are named, a column is named as both.
TextColumns find_text_columns(const Table& table, const ColumnOptions& options = {});

struct LabelMap {
  bool is_regression = false;
  std::vector<std::string> names;  // id2label: names[id]; empty for regression

  // What the model's head needs: the number of classes, or 1 for regression.
  int64_t num_labels() const { return is_regression ? 1 : static_cast<int64_t>(names.size()); }
};

// The labels of a training set. UserError, which names file and line: a label is missing.
LabelMap find_labels(const Table& table, int64_t label_column);

// The class of each row. UserError, which names label, file and line: missing, or not in the map.
std::vector<int32_t> class_labels(const Table& table, int64_t label_column, const LabelMap& map);

// The value of each row, for regression. UserError, which names file and line: not a number.
std::vector<float> value_labels(const Table& table, int64_t label_column);

}  // namespace shoehorn
