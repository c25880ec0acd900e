// What the labels of a file mean: which problem they are of, the names of its classes, and the numbers that a
// loss reads.
//
//   one column of words or whole numbers   single_label_classification: a class a text. Numbers are in numeric order,
//                                          words in the order of their bytes. A class is a distinct label of the
//                                          training set.
//   one column of real numbers             regression, as run_glue has it; of whole numbers where somebody says so
//   one column of lists (JSON)             multi_label_classification: the classes that a text has, none or many
//   several columns of 0 and 1             multi_label_classification: a class a column, which names it
//   several columns of other numbers       regression: a value a column
//
// Where the training set has exactly the classes of the model, they keep the model's order. A label is missing where
// its cell is empty; among classes also where it is a negative integer (GLUE's -1, PyTorch's -100); among
// numbers also where it is a word for nothing ("nan").
//
// Functions are thread-safe and pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/table.h"

namespace shoehorn {

enum class ProblemType : uint8_t { kSingleLabel, kMultiLabel, kRegression };

// As Hugging Face's config.json has them: "single_label_classification", "multi_label_classification", "regression".
std::string_view problem_type_name(ProblemType problem);
std::optional<ProblemType> find_problem_type(std::string_view name);

struct LabelMap {
  ProblemType problem = ProblemType::kSingleLabel;
  std::vector<std::string> names;  // id2label: names[id] of the classes; of a regression's values
  // Of a model: where a file has integers and no name is one, they are ids (0 is the class names[0]).
  bool takes_ids = false;

  // What the model's head needs: outputs for a text.
  int64_t num_labels() const { return static_cast<int64_t>(names.size()); }
};

// LABEL_0, LABEL_1, …: what Hugging Face calls classes and values without names.
std::vector<std::string> default_labels(int64_t count);

// Classes without names, of which a text has one.
LabelMap classes(int64_t count);

struct FindLabelsOptions {
  // What the labels are to be; unset: what they can be, and where that is several, the model's, else the first of the
  // list above.
  std::optional<ProblemType> problem = {};
  // Those that the model has, if any. Not owned.
  const LabelMap* model = nullptr;
};

// The labels of a training set, which lie in `columns` (at least one). UserError, which names file and line:
// a label is missing, a label that fits no problem, or not the one that is asked for, lists without any
// class; which names the column: more than 256 classes, and less than two rows for each.
LabelMap find_labels(const Table& table, const std::vector<int64_t>& columns,
                     const FindLabelsOptions& options = {});

// Whether the labels of this file are ids of the map's classes.
bool labels_are_ids(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map);

// The class of each row, of a map of kSingleLabel. UserError, which names label, file and line: missing, not
// in the map, or the name of two classes of it.
std::vector<int32_t> class_labels(const Table& table, const std::vector<int64_t>& columns,
                                  const LabelMap& map);

// map.num_labels() values of each row: of kMultiLabel 1 for a class that the text has and 0 for the others, of
// kRegression the numbers. UserError, which names file and line: as of class_labels, or not a number; which names the
// file: other columns than the map has names.
std::vector<float> value_labels(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map);

}  // namespace shoehorn
