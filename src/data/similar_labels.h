// Labels that look like a slip in the file: those that differ only in spaces or in the case of letters ("positive " beside
// "positive"), and a few numbers with a point among whole ones ("1.0" beside "1"), which make values of classes.
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

// A line for each group of similar classes, with the number of rows and the first place of each; a line for values of which
// most are whole numbers, with the first that is not. `labels` are those of the table's one column. No lines for other
// labels.
std::vector<std::string> similar_label_notices(const Table& table, const std::vector<int64_t>& columns,
                                               const LabelMap& labels);

}  // namespace shoehorn
