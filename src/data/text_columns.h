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
//           Where the training set has exactly the classes of the model, they keep the model's order.
//
// A label is missing where its cell is empty, is a negative integer (GLUE's -1, PyTorch's -100), or is a word
// for nothing among numbers ("nan").
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
  // Of a model: where a file has integers and no name is one, they are ids (0 is the class names[0]).
  bool takes_ids = false;

  // What the model's head needs: the number of classes, or 1 for regression.
  int64_t num_labels() const { return is_regression ? 1 : static_cast<int64_t>(names.size()); }
};

// The labels of a training set; `model_names` are the classes that the model has, if any. UserError, which
// names file and line: a label is missing; which names the column: more than 256 classes, and less than two
// rows for each.
LabelMap find_labels(const Table& table, int64_t label_column,
                     const std::vector<std::string>& model_names = {});

// Whether the labels of this file are ids of the map's classes.
bool labels_are_ids(const Table& table, int64_t label_column, const LabelMap& map);

// The class of each row. UserError, which names label, file and line: missing, not in the map, or the name of
// two classes of it.
std::vector<int32_t> class_labels(const Table& table, int64_t label_column, const LabelMap& map);

// The value of each row, for regression. UserError, which names file and line: not a number.
std::vector<float> value_labels(const Table& table, int64_t label_column);

}  // namespace shoehorn
