// Finds out what the labels of a file mean: which kind of problem they define, the names of the classes, and
// the numbers that a loss reads.
//
//   one column of words or whole numbers   single_label_classification: one class per text. The classes are
//                                          the distinct labels of the training set: numbers in numeric order,
//                                          words in the order of their bytes.
//   one column of real numbers             regression, as in run_glue; for whole numbers only on request
//   one column of lists (JSON)             multi_label_classification: the any number of classes per text
//   several columns of 0 and 1             multi_label_classification: one class per column, named by the column
//   several columns of other numbers       regression: one value per column
//
// If the training set has exactly the classes of the model, they keep the model's order. A label is missing
// if its cell is blank; for classes also if it is a negative integer (GLUE's -1, PyTorch's -100); for numbers
// also if it is a word for nothing ("nan"). Among numbers one that is infinite ("inf", 1e999) is an error.
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

constexpr size_t kShownLabelBytes = 60;  // of a label in a message

enum class ProblemType : uint8_t { kSingleLabel, kMultiLabel, kRegression };

// The spelling in Hugging Face's config.json: "single_label_classification", "multi_label_classification",
// "regression".
std::string_view problem_type_name(ProblemType problem);
std::optional<ProblemType> find_problem_type(std::string_view name);

struct LabelMap {
  ProblemType problem = ProblemType::kSingleLabel;
  std::vector<std::string> names;  // id2label: names[id] of the classes, or of a regression's values
  // For the map of a model: if a file has integers and no class has such a name, they are ids (0 is the class
  // names[0]).
  bool takes_ids = false;

  // The number of outputs per text that the model's head needs.
  int64_t num_labels() const { return static_cast<int64_t>(names.size()); }
};

// LABEL_0, LABEL_1, …: Hugging Face's names for unnamed classes and values.
std::vector<std::string> default_labels(int64_t count);

// A single-label map with default names.
LabelMap classes(int64_t count);

struct FindLabelsOptions {
  // The problem that the labels must define. Unset: one that they can define; of several the model's, or else
  // the first one in the list above.
  std::optional<ProblemType> problem = {};
  // The labels of the model; null if it has none. Not owned.
  const LabelMap* model = nullptr;
};

// Finds the labels of a training set in `columns` (at least one). UserError naming file and line: a missing
// label, a label that fits no problem or not the requested one, lists without any class. UserError naming the
// column: more than 256 classes with fewer than two rows per class.
LabelMap find_labels(const Table& table, const std::vector<int64_t>& columns,
                     const FindLabelsOptions& options = {});

// True if the labels of this file are ids of the map's classes.
bool labels_are_ids(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map);

// The class of each row; `map` is kSingleLabel. UserError naming label, file and line: a label is missing, is
// not in the map, or names two of its classes.
std::vector<int32_t> class_labels(const Table& table, const std::vector<int64_t>& columns,
                                  const LabelMap& map);

// map.num_labels() values per row. kMultiLabel: 1 for each class of the text, 0 for the others. kRegression:
// the numbers. UserError naming file and line: as in class_labels, or not a number. UserError naming the
// file: its columns differ from the map's names.
std::vector<float> value_labels(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map);

}  // namespace shoehorn
