// Finds out which columns of a table are texts and which are labels, by the rules of transformers' run_glue
// for custom files (find_language_column: of run_clm). Two differences, where that script would fail: the
// published MRPC and STS-B files are recognized by their header, and columns that hold only numbers (ids, an
// index) are not taken for text.
// data/labels.h says what labels mean.
//
//   label   those that the user names, else those that are preferred, else the column `label`, else `labels`, else MRPC's
//           `Quality` or STS-B's `score`
//   text    those that the user names, else those that are preferred, else sentence1 and sentence2 if both are there, else
//           MRPC's `#1 String` and `#2 String`, else the first two other columns, or the only one
//   id      the one that the user names
//
// Functions are thread-safe and pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/table.h"

namespace shoehorn {

struct ColumnOptions {
  std::vector<std::string> text_column_names = {};  // empty: by the rules above; else 1 or 2
  // A column, or several with commas between them; empty: by the rules above.
  std::string label_column_name = {};
  // Columns that a file beside this one has, which is read alike: the training's. They are taken where none are named and
  // this table has them all. Where it lacks one, the rules are to find as many texts, or it is an error.
  std::vector<std::string> preferred_text_columns = {};
  std::string preferred_label_columns = {};  // as label_column_name
  // A column that tells the rows apart for people: neither text nor label. Empty: none.
  std::string id_column_name = {};
};

// Indices of columns; -1 if there is none.
struct TextColumns {
  int64_t text = -1;
  int64_t pair = -1;
  std::vector<int64_t> labels = {};  // in the order in which they were named
  int64_t id = -1;

  bool has_labels() const { return !labels.empty(); }
  bool is_label(int64_t column) const { return std::ranges::find(labels, column) != labels.end(); }
};

// Of those, where the labels are; of a table whose rows need not be there.
std::vector<int64_t> find_label_columns(const Table& table, const ColumnOptions& options);

// The column of texts of a language model: `name`; where that is empty `preferred`, if there is a column of this name;
// else the column `text`, else the first one, as in run_clm. UserError, which lists the columns there are: it is absent; not named, and of
// numbers alone.
int64_t find_language_column(const Table& table, const std::string& name, const std::string& preferred = {});

// Whether a cell is a text that is not a number.
bool has_text(const Column& column);

// UserError naming file and line: a cell of the column is a list or an object, or is not there.
void check_are_texts(const Table& table, int64_t column);

// UserError, which lists the columns there are: a named column is absent, no column is left for text, more
// than two text columns are named, a column is named as two of text, label and id, or
// twice as a label.
TextColumns find_text_columns(const Table& table, const ColumnOptions& options = {});

}  // namespace shoehorn
