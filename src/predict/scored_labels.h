// The labels of a file that is predicted. They are scored where they are there, and may be absent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/labels.h"
#include "data/table.h"

namespace shoehorn {

// The labels are read a part of the file at a time, and are to be of one kind in all parts.
//
// A file is scored whole or not at all. If the user named the label column, a label that is missing or that the model
// does not know is an error. If the column was found by its name, it may be anything: the first such label ends the
// scoring with a notice, and the predictions go on.
class ScoredLabels {
 public:
  // `map`: the model's. `on_line` gets the notice; may be unset.
  ScoredLabels(LabelMap map, bool is_required, std::function<void(const std::string& line)> on_line);

  // Gives the labels of all rows of the part, in `columns`, to the builder of its samples. UserError naming file and
  // line, if they are required.
  void add(const Table& part, const std::vector<int64_t>& columns, DatasetBuilder& builder);

  // Whether all parts so far had their labels, and there was one.
  bool are_whole() const { return has_some_ && !is_given_up_; }
  bool are_ids() const { return are_ids_.value_or(false); }

 private:
  void read(const Table& part, const std::vector<int64_t>& columns, DatasetBuilder& builder);

  LabelMap map_;
  bool is_required_;
  std::function<void(const std::string& line)> on_line_;
  std::optional<bool> are_ids_;  // numbers of classes that have other names; as in the first part
  bool has_some_ = false;
  bool is_given_up_ = false;
};

}  // namespace shoehorn
