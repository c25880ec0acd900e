// Labels that differ only in spaces or in the case of letters, as a slip in a file makes them: "positive " beside
// "positive".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/labels.h"
#include "data/table.h"

namespace shoehorn {

// The label without spaces at its ends, with one between words, its letters A-Z small. Equal for similar labels.
std::string folded_label(std::string_view label);

// The name that is similar to `label` and is another one; empty if there is none.
std::string similar_label(std::string_view label, const std::vector<std::string>& names);

// A line for each group of similar classes, with the number of rows and the first place of each; `labels` are those of
// the table's one column of classes. No lines for other labels.
std::vector<std::string> similar_label_notices(const Table& table, const std::vector<int64_t>& columns,
                                               const LabelMap& labels);

}  // namespace shoehorn
