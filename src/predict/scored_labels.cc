#include "predict/scored_labels.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shoehorn {

ScoredLabels::ScoredLabels(LabelMap map, bool is_required,
                           std::function<void(const std::string& line)> on_line)
    : map_(std::move(map)), is_required_(is_required), on_line_(std::move(on_line)) {
  map_.takes_ids = true;
}

void ScoredLabels::add(const Table& part, const std::vector<int64_t>& columns, DatasetBuilder& builder) {
  if (columns.empty() || is_given_up_) return;
  try {
    read(part, columns, builder);
    has_some_ = true;
  } catch (const UserError& error) {
    if (is_required_) throw;
    is_given_up_ = true;
    if (on_line_) on_line_(fmt::format("no metrics, because labels cannot be scored: {}", error.what()));
  }
}

void ScoredLabels::read(const Table& part, const std::vector<int64_t>& columns, DatasetBuilder& builder) {
  const bool are_ids = labels_are_ids(part, columns, map_);
  if (!are_ids_) {
    are_ids_ = are_ids;
    map_.takes_ids = are_ids;
  } else if (*are_ids_ && !are_ids) {
    throw user_error(
        "[{}] expected numbers of the model's classes as labels, as in the rows before, got other labels; write "
        "either numbers or names",
        part.place(0));
  }
  if (map_.problem == ProblemType::kSingleLabel) {
    builder.set_class_labels(class_labels(part, columns, map_));
  } else {
    builder.set_value_labels(value_labels(part, columns, map_), map_.num_labels());
  }
}

}  // namespace shoehorn
