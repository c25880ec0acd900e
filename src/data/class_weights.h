// How much the classes of labels count in a loss.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace shoehorn {

// By whose sum a loss is divided: the weight of a sample's class, where its label names one, else its number of targets
// (Dataset::target_items). `class_weights`: one a class, or none.
double target_weight(const Dataset& dataset, int64_t sample, std::span<const float> class_weights);

// Of C classes, how many samples have each: of labels that name a class, or are a value of 0.5 or more.
std::vector<int64_t> count_classes(const Dataset& dataset, int64_t classes);

// The weights that let all classes count alike, from their counts in the data.
//
// Labels that name a class: samples / (classes that occur · samples of the class), as scikit-learn's
// compute_class_weight("balanced"); 1 for a class that does not occur. Labels that are values: samples without the
// class / samples with it, torch's advice for pos_weight; 1 for a class that no sample has.
std::vector<float> balanced_class_weights(const Dataset& dataset, int64_t classes);

}  // namespace shoehorn
