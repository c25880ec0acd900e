// Lines for people about data that was read: which columns were taken for what, how often each class occurs, and what in
// the files looks like a slip.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/load_dataset.h"

namespace shoehorn {

// A class's name for a line in which a number follows it: in quotes where it has no letter, begins or ends in a
// space, or holds a comma.
std::string shown_class(const std::string& name);

// Told, now and then and at the end, of the samples whose labels are read, out of all; may be unset. Labels in files
// (data/shard_source.h) take a read each. What it throws ends the reading.
using LabelProgress = std::function<void(int64_t done, int64_t samples)>;

// Samples of each class: of kClass one class a sample, of kValue with several classes a text those that it has. Empty for
// numbers.
std::vector<int64_t> class_counts(const Dataset& samples, const LabelMap& labels,
                                  const LabelProgress& on_progress = {});

// "text: premise, hypothesis; label: target"; without labels only the texts.
std::string describe_columns(const std::vector<std::string>& texts, const std::vector<std::string>& labels);

// "text: premise, hypothesis; label: target; classes: different 150, same 250", with a line end. Of many classes the
// three most frequent ones and the least; of numbers the range that `samples` have. `counts`: class_counts() of the samples.
std::string describe_columns(const LoadedDataset& data, const Dataset& samples,
                             const std::vector<int64_t>& counts, const LabelProgress& on_progress = {});

// A line if a class of the file has samples in one of the two parts only, as where a file is sorted by its labels and
// split behind its beginning; else nothing. `trained`, `evaluated`: class_counts() of the parts.
std::string describe_uneven_split(const LabelMap& labels, const std::vector<int64_t>& trained,
                                  const std::vector<int64_t>& evaluated);

}  // namespace shoehorn
